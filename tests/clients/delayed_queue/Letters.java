package example;

/** A class with an event inside: its list is named after the inner class alone. */
public final class Letters {
    private Letters() {}

    public static final class Welcome implements Event {
        private String id, text;
        private int attempt = 7; // the envelope has this key too
        private double amount = 12.50;

        public String getId() { return id; }
        public void setId(String value) { id = value; }
        public String getText() { return text; }
        public void setText(String value) { text = value; }
        public int getAttempt() { return attempt; }
        public void setAttempt(int value) { attempt = value; }
        public double getAmount() { return amount; }
        public void setAmount(double value) { amount = value; }
    }
}
