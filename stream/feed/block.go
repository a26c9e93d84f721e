package feed

import (
	"sync"
	"sync/atomic"
)

// Block is memory into which messages were read. It is reused after all its users have left.
type Block struct {
	bytes []byte
	users atomic.Int32
}

// blockBytes is the size of a block. A message that does not fit has a separate block, which is not reused.
const blockBytes = 256 << 10

var blocks = sync.Pool{New: func() any { return &Block{bytes: make([]byte, blockBytes)} }}

// newBlock returns a block of at least size bytes, with one user.
func newBlock(size int) *Block {
	b := &Block{}
	if size <= blockBytes {
		b = blocks.Get().(*Block)
	} else {
		b.bytes = make([]byte, size)
	}
	b.users.Store(1)
	return b
}

// retain adds a user.
func (b *Block) retain() { b.users.Add(1) }

// Release ends the use of a message in the block. A block that is not left is freed by the collector.
func (b *Block) Release() {
	if b != nil && b.users.Add(-1) == 0 && len(b.bytes) == blockBytes {
		blocks.Put(b)
	}
}
