package document

import "loaderd/loader/plan"

// StreamState is what a document stream says of itself at one moment.
type StreamState struct {
	plan.Stream
	First uint64 // sequence that the stream still holds, 1 for a stream that never held anything
	Last  uint64 // last sequence in the stream
	// Sealed says that Last is the last document: none follows, for any run.
	Sealed     bool
	Bytes      int64 // that it holds
	Messages   int64 // that it holds
	MaxBytes   int64 // bound of Bytes; 0 or less: unlimited
	MaxMessage int64 // largest message that it accepts, in bytes
	// Configured is the setting that MaxBytes follows as far as the disk has space; 0 where the stream's owner sets it.
	Configured int64
	// Free is the free space on the disk of the server inside the daemon, in bytes; nil where that is not known.
	Free *int64
	// AccountBytes is what the streams of its JetStream account hold, and AccountMax what they may hold together; 0: no
	// limit is known.
	AccountBytes, AccountMax int64
	// Trouble is why the stream may lose documents or get no more of them although it is there: its settings were changed.
	// Else nil.
	Trouble error
}
