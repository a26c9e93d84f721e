package conn

// NotNATS says what a client is told that a server of another kind does not greet.
var NotNATS = notNATS

// APIPrefix is what subjects of JetStream's interface begin with for a client of the library.
var APIPrefix = apiPrefix
