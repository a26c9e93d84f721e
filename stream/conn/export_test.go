package conn

// NotNATS says what a client is told that a server of another kind does not greet.
var NotNATS = notNATS
