package tokenizer

import "bytes"

// addedSet finds added tokens in a text, leftmost-longest.
type addedSet struct {
	nodes []trieNode // nodes[0] is the root
	next  map[trieEdge]int32
	first []byte // the bytes that tokens begin with
	is    [256]bool
}

type trieEdge struct {
	node int32
	b    byte
}

// trieNode ends a token if id >= 0. A token that is text is matched, but left to the text around it.
type trieNode struct {
	id     int32
	isText bool
}

// newAddedSet holds the added tokens of d whose normalized flag is as given.
func newAddedSet(d *definition, normalized bool) addedSet {
	s := addedSet{nodes: []trieNode{{id: -1}}, next: map[trieEdge]int32{}}
	for _, a := range d.added {
		if a.normalized != normalized {
			continue
		}
		content := []byte(a.content)
		if normalized && d.nfc {
			content = new(normalizer).nfc(content)
		}
		if !s.is[content[0]] {
			s.is[content[0]] = true
			s.first = append(s.first, content[0])
		}
		at := int32(0)
		for _, b := range content {
			to, ok := s.next[trieEdge{at, b}]
			if !ok {
				to = int32(len(s.nodes))
				s.nodes = append(s.nodes, trieNode{id: -1})
				s.next[trieEdge{at, b}] = to
			}
			at = to
		}
		s.nodes[at] = trieNode{a.id, a.special && d.specialAsText}
	}
	return s
}

// find returns the next token of s from i on: where it begins and ends, and its id. Without one it begins at len(s).
func (a *addedSet) find(s []byte, i int) (start, end int, id int32) {
	for i = a.candidate(s, i); i < len(s); i = a.candidate(s, i) {
		n, t := a.match(s[i:])
		if n > 0 && !t.isText {
			return i, i + n, t.id
		}
		i += max(n, 1)
	}
	return len(s), len(s), -1
}

// candidate is the next place from i on where a token might begin, or len(s).
func (a *addedSet) candidate(s []byte, i int) int {
	switch len(a.first) {
	case 0:
		return len(s)
	case 1:
		if k := bytes.IndexByte(s[i:], a.first[0]); k >= 0 {
			return i + k
		}
		return len(s)
	}
	for i < len(s) && !a.is[s[i]] {
		i++
	}
	return i
}

// match is the longest token that s begins with, and its length, or 0.
func (a *addedSet) match(s []byte) (n int, t trieNode) {
	at := int32(0)
	for k, b := range s {
		to, ok := a.next[trieEdge{at, b}]
		if !ok {
			break
		}
		at = to
		if a.nodes[at].id >= 0 {
			n, t = k+1, a.nodes[at]
		}
	}
	return n, t
}
