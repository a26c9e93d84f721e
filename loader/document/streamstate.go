package document

import "loaderd/loader/plan"

// StreamState is the state of a document stream at one moment.
type StreamState struct {
	plan.Stream
	First uint64 // first sequence in the stream; 1 for a stream that never held a message
	Last  uint64 // last sequence in the stream
	// Sealed reports that Last is the last document: none follows, for any run.
	Sealed     bool
	Bytes      int64 // size of the stream
	Messages   int64 // number in the stream
	MaxBytes   int64 // bound of Bytes; 0 or less: unlimited
	MaxMessage int64 // largest accepted message, in bytes
	// Configured is the setting that MaxBytes follows as far as disk space permits; 0 if the stream's owner sets
	// MaxBytes.
	Configured int64
	// Free is the free space on the disk of the embedded server, in bytes; nil if unknown.
	Free *int64
	// AccountBytes is the size of all streams of the JetStream account, and AccountMax their limit; 0 if no limit is
	// known.
	AccountBytes, AccountMax int64
	// Problem is why a reachable stream may lose documents or receive no more, because its settings were changed;
	// otherwise nil.
	Problem error
}
