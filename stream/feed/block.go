package feed

import (
	"sync"
	"sync/atomic"
)

// Block is memory in which messages lie as they were read. It is used again when all who use it have left.
type Block struct {
	bytes []byte
	users atomic.Int32
}

// blockBytes is the size of a block. A message that does not fit has one of its own, which is not used again.
const blockBytes = 256 << 10

var blocks = sync.Pool{New: func() any { return &Block{bytes: make([]byte, blockBytes)} }}

// newBlock returns a block of so many bytes at least, which one uses.
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

// use adds a user.
func (b *Block) use() { b.users.Add(1) }

// Leave says that a message in the block is not used any more. Where nobody says it, the block is not used again.
func (b *Block) Leave() {
	if b != nil && b.users.Add(-1) == 0 && len(b.bytes) == blockBytes {
		blocks.Put(b)
	}
}
