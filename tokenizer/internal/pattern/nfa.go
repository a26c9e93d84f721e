package pattern

import (
	"errors"
	"slices"

	"loaderd/tokenizer/internal/ucd"
)

// nfa is a pattern as states that consume a character, branch, look ahead or accept, as in Thompson's construction.
// The branches of a choice are in the order in which a backtracking engine tries them.
type nfa struct {
	states []nfaState
	sets   []ucd.Set // the sets that states test characters for
	start  int32

	edge, groups   int32 // the sets that represent Edge and Groups; -1: none
	run            *Expr // the Groups
	hasMixedGroups bool  // the pattern has several different ones
}

type nfaState struct {
	kind     nfaKind
	set      int32 // of take and look: index in sets
	orEnd    bool  // look also holds at the end of the text
	not      bool  // look is negated
	out, alt int32 // next state; alt only for branch, which tries out first
}

type nfaKind uint8

const (
	acceptState nfaKind = iota
	charState
	branchState
	lookState
)

// maxStates bounds the states of an nfa and those of a dfa.
const maxStates = 4000

// maxSets is the maximum number of different classes in a pattern: each has a bit.
const maxSets = 64

var errTooLarge = errors.New("it is too large")

func newNFA(e *Expr) (n *nfa, err error) {
	n = &nfa{edge: -1, groups: -1}
	n.start = n.compile(e, n.addState(nfaState{kind: acceptState}))
	if len(n.states) >= maxStates || len(n.sets) > maxSets {
		return nil, errTooLarge
	}
	if n.hasMixedGroups {
		return nil, errors.New("looks at different groups")
	}
	return n, nil
}

// placeSet returns a set that represents a condition on a place. It contains no characters.
func (n *nfa) placeSet(set *int32) int32 {
	if *set < 0 {
		*set = int32(len(n.sets))
		n.sets = append(n.sets, nil)
	}
	return *set
}

// addState adds a state. At the limit it only returns an index that represents them.
func (n *nfa) addState(s nfaState) int32 {
	if len(n.states) < maxStates {
		n.states = append(n.states, s)
	}
	return int32(len(n.states) - 1)
}

func (n *nfa) setOf(s ucd.Set) int32 {
	for k, other := range n.sets {
		if int32(k) != n.edge && int32(k) != n.groups && slices.Equal(s, other) {
			return int32(k)
		}
	}
	if len(n.sets) <= maxSets {
		n.sets = append(n.sets, s)
	}
	return int32(len(n.sets) - 1)
}

// compile returns the state that matches e and continues at then.
func (n *nfa) compile(e *Expr, then int32) int32 {
	if len(n.states) >= maxStates {
		return then
	}
	switch e.Kind {
	case Character:
		return n.addState(nfaState{kind: charState, set: n.setOf(e.Set), out: then})
	case Lookahead:
		return n.addState(nfaState{kind: lookState, set: n.setOf(e.Set), orEnd: e.OrEnd, out: then})
	case WordBoundary:
		n.setOf(ucd.WordCharacters())
		return n.addState(nfaState{kind: lookState, set: n.placeSet(&n.edge), not: e.Negated, out: then})
	case GroupsLookahead:
		n.hasMixedGroups = n.hasMixedGroups || n.run != nil && !n.run.sameGroups(e)
		n.run = e
		n.setOf(e.Set)
		n.setOf(e.After)
		return n.addState(nfaState{kind: lookState, set: n.placeSet(&n.groups), out: then})
	case Sequence:
		for i := len(e.Parts) - 1; i >= 0; i-- {
			then = n.compile(e.Parts[i], then)
		}
		return then
	case Choice:
		first := n.compile(e.Parts[len(e.Parts)-1], then)
		for i := len(e.Parts) - 2; i >= 0; i-- {
			first = n.addState(nfaState{kind: branchState, out: n.compile(e.Parts[i], then), alt: first})
		}
		return first
	default:
		return n.compileRepeat(e, then)
	}
}

func (n *nfa) compileRepeat(e *Expr, then int32) int32 {
	first := then
	if e.Max < 0 {
		first = n.addState(n.branchOf(e, 0, then))
		n.states[first] = n.branchOf(e, n.compile(e.Parts[0], first), then)
	}
	for k := e.Max - e.Min; k > 0; k-- {
		first = n.addState(n.branchOf(e, n.compile(e.Parts[0], first), then))
	}
	for k := e.Min; k > 0; k-- {
		first = n.compile(e.Parts[0], first)
	}
	return first
}

// branchOf returns a branch to again or to then, in the order of the quantifier.
func (n *nfa) branchOf(e *Expr, again, then int32) nfaState {
	if e.Mode == Lazy {
		return nfaState{kind: branchState, out: then, alt: again}
	}
	return nfaState{kind: branchState, out: again, alt: then}
}

// isAtomic reports whether every possessive quantifier of e matches the same as a greedy one. That is so if what
// follows it may be empty, or cannot start with what the quantifier would have to give back.
func isAtomic(e *Expr) bool { return e.isAtomic(nil, true) }

// isAtomic is the recursive form for a part of a pattern: behind are the characters that may follow it, and open
// reports that nothing has to follow.
func (e *Expr) isAtomic(behind ucd.Set, open bool) bool {
	switch e.Kind {
	case Sequence:
		return e.isSequenceAtomic(behind, open)
	case Choice:
		return !slices.ContainsFunc(e.Parts, func(part *Expr) bool { return !part.isAtomic(behind, open) })
	case Repeat:
		body := e.Parts[0]
		if e.Mode == Possessive {
			return body.Kind == Character && (open || body.Set.Intersect(behind) == nil)
		}
		first, _ := body.firstSet()
		return body.isAtomic(behind.Union(first), open && e.Max == 1)
	}
	return true
}

func (e *Expr) isSequenceAtomic(behind ucd.Set, open bool) bool {
	for _, part := range slices.Backward(e.Parts) {
		if !part.isAtomic(behind, open) {
			return false
		}
		first, empty := part.firstSet()
		if empty {
			first = behind.Union(first)
		}
		behind = first
		open = open && empty && !part.hasLookaround()
	}
	return true
}

// sameGroups reports whether two lookaheads at groups are equal.
func (e *Expr) sameGroups(o *Expr) bool {
	return e.Min == o.Min && e.OrEnd == o.OrEnd && slices.Equal(e.Set, o.Set) && slices.Equal(e.After, o.After)
}

// hasLookaround reports whether e may look around.
func (e *Expr) hasLookaround() bool {
	return e.Kind == Lookahead || e.Kind == WordBoundary || e.Kind == GroupsLookahead ||
		slices.ContainsFunc(e.Parts, (*Expr).hasLookaround)
}

// firstSet returns the characters with which e may start, and whether e may be empty.
func (e *Expr) firstSet() (set ucd.Set, empty bool) {
	switch e.Kind {
	case Character:
		return e.Set, false
	case Lookahead, WordBoundary, GroupsLookahead:
		return ucd.Set(nil).Complement(), true
	case Repeat:
		set, _ = e.Parts[0].firstSet()
		return set, e.Min == 0
	case Sequence:
		for _, part := range e.Parts {
			s, empty := part.firstSet()
			if set = set.Union(s); !empty {
				return set, false
			}
		}
		return set, true
	default:
		for _, part := range e.Parts {
			s, nothing := part.firstSet()
			set, empty = set.Union(s), empty || nothing
		}
		return set, empty
	}
}

// follow follows a list of states over the next character, which is in the sets, or over the end of the text. States
// after an accepting one are not tried.
func (n *nfa) follow(list []int32, sets uint64, atEnd bool) (to []int32, accepts bool) {
	seen, taken := make([]bool, len(n.states)), make([]bool, len(n.states))
	var follow func(s int32)
	follow = func(s int32) {
		if accepts || seen[s] {
			return
		}
		seen[s] = true
		st := n.states[s]
		in := sets>>st.set&1 == 1 // at the end of the text only conditions on the place
		switch st.kind {
		case acceptState:
			accepts = true
		case charState:
			if in && !taken[st.out] {
				taken[st.out] = true
				to = append(to, st.out)
			}
		case branchState:
			follow(st.out)
			follow(st.alt)
		case lookState:
			if in != st.not || atEnd && st.orEnd {
				follow(st.out)
			}
		}
	}
	for _, s := range list {
		follow(s)
	}
	return to, accepts
}
