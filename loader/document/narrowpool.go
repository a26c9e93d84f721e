package document

import "loaderd/internal/bufpool"

// NarrowPool pools the memory of 16-bit token ids. Memory is reused once its document has left the cache and no batch
// refers to it (Batch.Done). It was up to two fifths of the memory that a daemon allocated. The garbage collector
// frees the memory of a batch that is not given back.
var NarrowPool = bufpool.New[uint16](1<<8, 1<<20)
