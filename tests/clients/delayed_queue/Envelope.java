package example;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.annotation.JsonTypeInfo;
import java.beans.ConstructorProperties;
import java.util.Map;

/** An entry of the hash and of the lists. Jackson writes the same bytes for the envelope of fred84/delayedQueue 384b808. */
public final class Envelope<T extends Event> {
    @JsonTypeInfo(use = JsonTypeInfo.Id.CLASS, include = JsonTypeInfo.As.EXTERNAL_PROPERTY, property = "type")
    @JsonProperty
    public final T payload;

    @JsonProperty
    public final int attempt;

    @JsonProperty
    public final Map<String, String> logContext;

    @ConstructorProperties({"payload", "attempt", "logContext"})
    public Envelope(T payload, int attempt, Map<String, String> logContext) {
        this.payload = payload;
        this.attempt = attempt;
        this.logContext = logContext;
    }

    public Envelope<T> next() {
        return new Envelope<>(payload, attempt + 1, logContext);
    }
}
