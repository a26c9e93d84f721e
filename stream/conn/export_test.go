package conn

// NotNATS exports notNATS: the explanation for a server of another kind, which does not greet.
var NotNATS = notNATS

// APIPrefix exports apiPrefix: the prefix of the subjects of JetStream's API for a client of the library.
var APIPrefix = apiPrefix
