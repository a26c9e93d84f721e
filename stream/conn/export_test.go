package conn

// ExplainHTTP2 exports explainHTTP2: the explanation for a server of another kind, which does not greet.
var ExplainHTTP2 = explainHTTP2

// APIPrefix exports apiPrefix: the prefix of the subjects of JetStream's API for a client of the library.
var APIPrefix = apiPrefix
