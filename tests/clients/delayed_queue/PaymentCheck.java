package example;

/** An event class that is no inner class. */
public final class PaymentCheck implements Event {
    private String id, text;

    public String getId() { return id; }
    public void setId(String value) { id = value; }
    public String getText() { return text; }
    public void setText(String value) { text = value; }
}
