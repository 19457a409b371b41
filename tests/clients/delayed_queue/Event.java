package example;

/** What an event must have: an id of its own. */
public interface Event {
    String getId();

    String getText();
}
