package state

// DocumentExchange counts the documents that a daemon has exchanged with the other daemons of its run.
type DocumentExchange struct {
	Sent     int64 `json:"sent"`            // to other daemons
	Received int64 `json:"received"`        // from the leader, instead of the stream
	Failed   int64 `json:"failed_requests"` // without a valid answer of the leader in time
}
