package document

import "loaderd/internal/bufpool"

// NarrowIDs has the memory of token ids of 16 bits. It is used again after its document has left the cache and no batch
// refers to it (Batch.Done); this was up to two fifths of the memory that a daemon allocated. Memory of a batch that is
// not given back is left to the collector.
var NarrowIDs = bufpool.New[uint16](1<<8, 1<<20)
