package stream

import (
	"context"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/proxy"
	"loaderd/stream/server"
)

// Buckets in the account of the documents.
const (
	// RecordsBucket holds what publishers have committed: a key for each source and input.
	RecordsBucket = "loaderd_publish"
	// ReadersBucket says which runs read a document stream, for those who publish to it.
	ReadersBucket = "loaderd_readers"
)

// EnsureRecords returns the bucket of what publishers have committed. It creates the bucket when it is absent, which
// producers of a server inside a daemon may not: there the daemon does.
func (s *Store) EnsureRecords(ctx context.Context) (jetstream.KeyValue, error) {
	return s.EnsureKeyValue(ctx, RecordsBucket, "what loaderd publish has committed, by source and input")
}

// producers are the requests that a producer may make of a server inside a daemon: publish documents, find out what has
// arrived of its own, keep its record, and see which runs read what it publishes. It makes, changes, purges and deletes
// no stream and no consumer: what is stored it reads by gets, of documents the headers.
func (c Config) producers() server.Producers {
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
