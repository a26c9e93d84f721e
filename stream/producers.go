package stream

import (
	"context"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"loaderd/stream/server"
)

// Buckets in the account of the documents.
const (
	// RecordsBucket holds what publishers have committed: a key for each source and input.
	RecordsBucket = "loaderd_publish"
	// ReadersBucket says which runs read a document stream, for those who publish to it.
	ReadersBucket = "loaderd_readers"
)

// EnsureRecords returns the bucket of what publishers have committed. It creates the bucket when it is absent, which producers of a server inside a daemon
// may not: there the daemon does.
func (s *Store) EnsureRecords(ctx context.Context) (jetstream.KeyValue, error) {
	return s.EnsureKeyValue(ctx, RecordsBucket, "what loaderd publish has committed, by source and input")
}

// producers is what a producer may do on a server inside a daemon: publish documents, find out what has arrived of its own, keep its record, and see who
// reads what it publishes. It makes, purges and deletes no stream. Reading the documents comes with it: to go on behind an interruption a producer
// reads what is stored.
func (c Config) producers() server.Producers {
	records, readers := keyValuePrefix+RecordsBucket, keyValuePrefix+ReadersBucket
	may := []string{
		c.Subject + ".>", "$KV." + RecordsBucket + ".>",
		"$JS.API.INFO", "$JS.API.STREAM.NAMES",
	}
	documents := []string{c.Name}
	for _, source := range c.Sources {
		documents = append(documents, c.OfSource(source, 1).Name)
	}
	for _, name := range append(slices.Clone(documents), records, readers) {
		may = append(may, "$JS.API.STREAM.INFO."+name, "$JS.API.STREAM.MSG.GET."+name, "$JS.API.DIRECT.GET."+name, "$JS.API.DIRECT.GET."+name+".>")
	}
	for _, name := range append(documents, records) { // what is stored is read by consumers
		may = append(may, "$JS.API.CONSUMER.CREATE."+name, "$JS.API.CONSUMER.CREATE."+name+".>", "$JS.API.CONSUMER.INFO."+name+".>",
			"$JS.API.CONSUMER.DELETE."+name+".>", "$JS.API.CONSUMER.MSG.NEXT."+name+".>", "$JS.FC."+name+".>")
	}
	return server.Producers{Publish: may, Subscribe: []string{"_INBOX.>"}}
}
