package example;

/** The interface of an event: it has an id. */
public interface Event {
    String getId();

    String getText();
}
