package docstream

import (
	"time"

	"loaderd/loader/document"
)

// SetWorkers lets a benchmark compare numbers of workers over one server.
func SetWorkers(l *Log, n int) { l.workers = n }

// PutStored puts a document into the token store.
func PutStored(l *Log, d document.Document) { l.stored.documents.Put(&d, "") }

// SetInactive sets after how long without a request the server drops the consumer of a reader.
func SetInactive(l *Log, d time.Duration) { l.inactive = d }

// SetBufferBytes bounds the documents that a reader holds.
func SetBufferBytes(l *Log, n int64) { l.bufferBytes = n }
