// Package trie finds the keys with which a text starts, in a double array.
package trie

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Trie maps byte strings to values. It is a double array: the child of a node by a byte is at the node's base,
// exclusive or the byte, if its parent is that node.
type Trie struct{ units []unit }

type unit struct {
	base   uint32
	parent uint32
	value  int32 // of the key that ends here, or -1
}

const (
	noParent  = ^uint32(0)
	blockSize = 1 << 8
	// searchBlocks is the number of last blocks in which room for a node's children is searched.
	searchBlocks = 16
	// maxNodes bounds the memory of a trie to some hundred MB.
	maxNodes = 1 << 24
	// maxKeyBytes bounds a key, and so the time per byte of a text.
	maxKeyBytes = 512
)

// Root is the node from which keys start.
const Root uint32 = 0

// Key is a byte string and its value, which must not be negative.
type Key struct {
	Text  string
	Value int32
}

// New returns the trie of keys, which must be distinct and not empty. It fails if one of them or all together have too
// many bytes.
func New(keys []Key) (*Trie, error) {
	sorted := slices.SortedFunc(slices.Values(keys), func(a, b Key) int { return strings.Compare(a.Text, b.Text) })
	nodes := 1
	for _, k := range sorted {
		if len(k.Text) > maxKeyBytes {
			return nil, fmt.Errorf("%.40q... has %d bytes, at most %d are supported", k.Text, len(k.Text), maxKeyBytes)
		}
		if nodes += len(k.Text); nodes > maxNodes {
			return nil, errors.New("all texts together have more than 16 MiB")
		}
	}
	b := builder{keys: sorted}
	b.grow()
	b.units[Root].parent = Root
	b.build()
	return &Trie{b.units}, nil
}

// Next returns the child of a node by a byte; ok is false if no key continues so.
func (t *Trie) Next(node uint32, c byte) (child uint32, ok bool) {
	child = t.units[node].base ^ uint32(c)
	return child, int(child) < len(t.units) && t.units[child].parent == node && child != Root
}

// Value returns the value of the key that ends at a node, or -1.
func (t *Trie) Value(node uint32) int32 { return t.units[node].value }

// Longest returns the length and the value of the longest key with which s starts, continuing a node; length 0 if none.
func (t *Trie) Longest(node uint32, s []byte) (length int, value int32) {
	for i, c := range s {
		var ok bool
		if node, ok = t.Next(node, c); !ok {
			break
		}
		if v := t.units[node].value; v >= 0 {
			length, value = i+1, v
		}
	}
	return length, value
}

type builder struct {
	units []unit
	keys  []Key
	first int // no unit before it is free
}

// grow appends a block of free units.
func (b *builder) grow() {
	for range blockSize {
		b.units = append(b.units, unit{parent: noParent, value: -1})
	}
}

// group is the keys from lo to hi that share the bytes of a node.
type group struct {
	lo, hi, depth int
	node          uint32
}

// build places all nodes, parents first.
func (b *builder) build() {
	var labels []byte
	var children []group
	queue := []group{{0, len(b.keys), 0, Root}}
	for len(queue) > 0 {
		g := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if g.lo < g.hi && len(b.keys[g.lo].Text) == g.depth {
			b.units[g.node].value = b.keys[g.lo].Value
			g.lo++
		}
		labels, children = labels[:0], children[:0]
		for lo := g.lo; lo < g.hi; {
			c, hi := b.keys[lo].Text[g.depth], lo+1
			for hi < g.hi && b.keys[hi].Text[g.depth] == c {
				hi++
			}
			labels, children = append(labels, c), append(children, group{lo, hi, g.depth + 1, 0})
			lo = hi
		}
		if len(labels) == 0 {
			continue
		}
		base := b.findBase(labels)
		b.units[g.node].base = base
		for i, c := range labels {
			children[i].node = base ^ uint32(c)
			b.units[children[i].node].parent = g.node
		}
		queue = append(queue, children...)
	}
}

// findBase returns a base at which the units of all labels are free.
func (b *builder) findBase(labels []byte) uint32 {
	for b.first < len(b.units) && b.units[b.first].parent != noParent {
		b.first++
	}
	for at := max(b.first, len(b.units)-searchBlocks*blockSize); ; at++ {
		if at == len(b.units) {
			b.grow()
		}
		if b.units[at].parent != noParent {
			continue
		}
		base := uint32(at) ^ uint32(labels[0])
		if !slices.ContainsFunc(labels, func(c byte) bool { return b.units[base^uint32(c)].parent != noParent }) {
			return base
		}
	}
}
