// Package added finds the added tokens of a tokenizer in a text, and splits the text at them according to their
// flags. The time is linear in the text for any tokens.
package added

import (
	"bytes"
	"slices"
	"sort"
)

// Token is an added token, which is found in the text before all other processing.
type Token struct {
	Content    string
	ID         int32
	Special    bool
	Normalized bool // find it after normalization, in the text between the other tokens
	SingleWord bool // not adjacent to a word character
	Lstrip     bool // include the white space before it
	Rstrip     bool // include the white space after it
}

// Set finds added tokens in a text with an Aho-Corasick automaton of leftmost-longest matches. Its time is linear in
// the text for any tokens.
type Set struct {
	tokens []Token
	nodes  []node     // nodes[0] is the root; shorter prefixes first
	label  []byte     // node -> the byte that leads to it
	root   [256]int32 // byte -> child of the root, or 0
	first  []byte     // the first bytes of tokens
	space  rune       // the character that a space in the text represents
}

// node is a prefix of tokens.
type node struct {
	child, end int32 // its children are nodes[child:end], in order of their bytes
	suffixLink int32 // its longest proper suffix that is a node, or dead
	token      int32 // the longest token with which it ends, or -1
}

// dead means that continuing at a suffix would lose a token that starts before it.
const dead = -1

// buildNode is the information about a node while the automaton is built.
type buildNode struct {
	lo, hi int // the tokens that start with it
	depth  int // its length
	begin  int // where the first token within it starts, or -1
}

// NewSet builds the automaton of tokens, whose contents must be distinct and not empty. A space in the text
// represents the character space.
func NewSet(tokens []Token, space rune) Set {
	if len(tokens) == 0 {
		return Set{}
	}
	a := Set{tokens: slices.Clone(tokens), space: space, nodes: []node{{suffixLink: dead, token: -1}}, label: []byte{0}}
	sort.Slice(a.tokens, func(i, j int) bool { return a.tokens[i].Content < a.tokens[j].Content })
	all := []buildNode{{lo: 0, hi: len(tokens), begin: -1}} // of each node
	for at := int32(0); int(at) < len(all); at++ {
		g := all[at]
		if len(a.tokens[g.lo].Content) == g.depth {
			g.lo++ // the node itself
		}
		a.nodes[at].child, a.nodes[at].end = int32(len(a.nodes)), int32(len(a.nodes))
		for lo := g.lo; lo < g.hi; {
			b, hi := a.tokens[lo].Content[g.depth], lo+1
			for hi < g.hi && a.tokens[hi].Content[g.depth] == b {
				hi++
			}
			child := buildNode{lo, hi, g.depth + 1, g.begin}
			node := a.newChild(at, b, &child, all)
			a.nodes, a.label, all = append(a.nodes, node), append(a.label, b), append(all, child)
			a.nodes[at].end++
			lo = hi
		}
	}
	for c := a.nodes[0].child; c < a.nodes[0].end; c++ {
		a.root[a.label[c]] = c
		a.first = append(a.first, a.label[c])
	}
	return a
}

// newChild returns the child of a node. All shorter nodes are complete.
func (a *Set) newChild(at int32, b byte, child *buildNode, all []buildNode) node {
	node := node{suffixLink: a.longestSuffix(at, b), token: -1}
	if len(a.tokens[child.lo].Content) == child.depth {
		node.token, child.begin = int32(child.lo), 0
	}
	if node.suffixLink != dead && child.begin >= 0 && child.depth-all[node.suffixLink].depth > child.begin {
		node.suffixLink = dead
	}
	if node.suffixLink != dead && node.token < 0 {
		if node.token = a.nodes[node.suffixLink].token; node.token >= 0 && child.begin < 0 {
			child.begin = child.depth - len(a.tokens[node.token].Content)
		}
	}
	return node
}

// longestSuffix returns the longest proper suffix of a node's child that is a node and may be continued, or dead.
func (a *Set) longestSuffix(at int32, b byte) int32 {
	for at != 0 {
		if at = a.nodes[at].suffixLink; at == dead {
			return dead
		}
		if to := a.childOf(at, b); to > 0 {
			return to
		}
	}
	return 0
}

// childOf returns the child of a node by a byte, or 0.
func (a *Set) childOf(at int32, b byte) int32 {
	n := a.nodes[at]
	if k, ok := slices.BinarySearch(a.label[n.child:n.end], b); ok {
		return n.child + int32(k)
	}
	return 0
}

// find returns the next token of s from i on, with its start and end. token is nil if none follows.
func (a *Set) find(s []byte, i int) (start, end int, token *Token) {
	at := int32(0)
	for i < len(s) {
		var to int32
		if at == 0 {
			if i = a.nextStart(s, i); i == len(s) {
				break
			}
			to = a.root[s[i]]
		} else if to = a.childOf(at, s[i]); to == 0 {
			if at = a.nodes[at].suffixLink; at == dead {
				break
			}
			continue
		}
		at = to
		i++
		if t := a.nodes[at].token; t >= 0 {
			end, token = i, &a.tokens[t]
		}
	}
	if token == nil {
		return len(s), len(s), nil
	}
	return end - len(token.Content), end, token
}

// nextStart returns the next position from i on where a token may start, or len(s).
func (a *Set) nextStart(s []byte, i int) int {
	switch len(a.first) {
	case 0:
		return len(s)
	case 1:
		if k := bytes.IndexByte(s[i:], a.first[0]); k >= 0 {
			return i + k
		}
		return len(s)
	}
	for i < len(s) && a.root[s[i]] == 0 {
		i++
	}
	return i
}
