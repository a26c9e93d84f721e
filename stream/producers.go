package stream

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/proxy"
	"loaderd/stream/server"
)

// Buckets in the account of the documents.
const (
	// RecordsBucket holds the commits of publishers: a key for each source and input.
	RecordsBucket = "loaderd_publish"
	// ReadersBucket lists the runs that read a document stream, for its publishers.
	ReadersBucket = "loaderd_readers"
)

// EnsureRecords returns the bucket with the commits of publishers. It creates the bucket if it does not exist.
// Producers of a server inside a daemon may not create it; the daemon does.
func (s *Store) EnsureRecords(ctx context.Context) (jetstream.KeyValue, error) {
	return s.EnsureKeyValue(ctx, RecordsBucket, "what loaderd publish has committed, by source and input")
}

// producerRequests returns the requests that a producer may make to a server inside a daemon: publish documents, find
// out which of its documents are stored, write its record, and list the runs that read its documents. A producer
// cannot create, change, purge or delete a stream or a consumer. It reads stored messages by gets, and of
// documents only the headers.
func (c Config) producerRequests() server.Producers {
	const info = "$JS.API.STREAM.INFO."
	may := server.Producers{
		Requests: []string{
			c.Subject + ".>", "$KV." + RecordsBucket + ".>", "$JS.API.INFO", "$JS.API.STREAM.NAMES",
			info + keyValuePrefix + RecordsBucket,
		},
		Reads: []proxy.Stream{{Name: keyValuePrefix + RecordsBucket}, {Name: keyValuePrefix + ReadersBucket}},
	}
	documents := []Config{c}
	for _, source := range c.Sources {
		documents = append(documents, c.OfSource(source, 1))
	}
	for _, d := range documents {
		may.Requests = append(may.Requests, info+d.Name)
		may.Reads = append(may.Reads, proxy.Stream{Name: d.Name, Subjects: d.subjects()})
	}
	return may
}
