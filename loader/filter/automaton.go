package filter

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

// automaton is a deterministic finite automaton that reports whether a text matches a regular expression. It takes one
// step per character. Package regexp takes one for each position of the expression that may match.
type automaton struct {
	ascii   []uint16 // next state by state and character of ASCII
	next    []uint16 // next state by state and class
	classes int
	bounds  []rune  // first characters of the ranges whose characters have the same class, ascending
	ranges  []uint8 // their classes
	atEnd   []bool  // by state: whether a text that ends there matches
}

const (
	rejected  = iota // no continuation matches
	accepted         // every continuation matches
	startedAt        // before the first character
)

// Limits of an automaton, which is complete before its first use. Package regexp matches expressions beyond them.
const (
	maxStates  = 500
	maxClasses = 100
	maxSteps   = 300_000 // visits of instructions and their characters
)

// newAutomaton returns the automaton of a program, nil if it would be too large.
func newAutomaton(program *syntax.Prog) *automaton {
	b := automatonBuilder{program: program, states: map[string]uint16{}, visited: make([]int, len(program.Inst))}
	if !b.classify() {
		return nil
	}
	return b.build()
}

// matches reports whether the expression matches s, as package regexp does.
func (a *automaton) matches(s string) bool {
	state, ascii := uint(startedAt), a.ascii
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			state = uint(ascii[state*utf8.RuneSelf+uint(c)])
			i++
		} else {
			r, n := utf8.DecodeRuneInString(s[i:]) // U+FFFD for invalid UTF-8, as in package regexp
			state = uint(a.next[state*uint(a.classes)+uint(a.class(r))])
			i += n
		}
		if state < startedAt {
			return state == accepted
		}
	}
	return a.atEnd[state]
}

// class returns the class of a character.
func (a *automaton) class(r rune) uint8 {
	i, found := slices.BinarySearch(a.bounds, r)
	if !found {
		i--
	}
	return a.ranges[i]
}

// position is where a state is in a text: threads of the program that continue, and the character before.
type position struct {
	threads []uint32 // instructions, ascending
	before  rune     // -1 at the start; otherwise one of the characters that the assertions distinguish
}

// automatonBuilder builds an automaton by the subset construction.
type automatonBuilder struct {
	automaton
	program      *syntax.Prog
	members      []rune // a character of each class
	words, lines bool   // whether the program has assertions about words and lines
	anchored     bool   // whether matches begin at the start of the text
	states       map[string]uint16
	open         []position // of the states from startedAt on
	visited      []int      // by instruction: the last closure that visited it
	closures     int
	steps        int
}

// classify divides the characters into classes that the program does not distinguish. It returns false if there are too
// many.
func (b *automatonBuilder) classify() bool {
	bounds := []rune{0}
	cut := func(from, to rune) { bounds = append(bounds, from, to+1) }
	for i := range b.program.Inst {
		switch inst := &b.program.Inst[i]; inst.Op {
		case syntax.InstEmptyWidth:
			flags := syntax.EmptyOp(inst.Arg)
			b.words = b.words || flags&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0
			b.lines = b.lines || flags&(syntax.EmptyBeginLine|syntax.EmptyEndLine) != 0
		case syntax.InstRune, syntax.InstRune1:
			if len(inst.Rune) == 1 {
				r := inst.Rune[0]
				cut(r, r)
				for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
					cut(f, f) // matches if the program ignores case
				}
			}
			for k := 0; k+1 < len(inst.Rune); k += 2 {
				cut(inst.Rune[k], inst.Rune[k+1])
			}
			if b.steps += len(inst.Rune); b.steps > maxSteps {
				return false
			}
		case syntax.InstRuneAnyNotNL:
			cut('\n', '\n')
		}
	}
	if b.lines {
		cut('\n', '\n')
	}
	for _, x := range [][2]rune{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}} {
		if b.words {
			cut(x[0], x[1])
		}
	}
	b.anchored = b.program.StartCond()&syntax.EmptyBeginText != 0
	slices.Sort(bounds)
	bounds = slices.Compact(bounds)
	numbers := map[string]uint8{}
	for _, r := range bounds {
		if r > unicode.MaxRune {
			break
		}
		if b.steps > maxSteps {
			return false
		}
		key := b.signature(r)
		class, ok := numbers[key]
		if !ok {
			if len(b.members) == maxClasses {
				return false
			}
			class = uint8(len(b.members))
			numbers[key] = class
			b.members = append(b.members, r)
		}
		b.bounds, b.ranges = append(b.bounds, r), append(b.ranges, class)
	}
	b.classes = len(b.members)
	return true
}

// signature returns a value that is equal for characters that the program does not distinguish.
func (b *automatonBuilder) signature(r rune) string {
	b.steps += len(b.program.Inst)
	key := []byte{byte(b.kind(r))}
	for i := range b.program.Inst {
		if matchesRune(&b.program.Inst[i], r) {
			key = binary.AppendUvarint(key, uint64(i))
		}
	}
	return string(key)
}

// matchesRune reports whether an instruction consumes a character.
func matchesRune(inst *syntax.Inst, r rune) bool {
	switch inst.Op {
	case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
		return inst.MatchRune(r)
	}
	return false
}

// kind returns the character that represents r as the one before a position: assertions distinguish no others.
func (b *automatonBuilder) kind(r rune) rune {
	switch {
	case r == '\n' && b.lines:
		return '\n'
	case b.words && syntax.IsWordChar(r):
		return 'a'
	}
	return ' '
}

// build returns the automaton, nil if it has too many states.
func (b *automatonBuilder) build() *automaton {
	b.state(position{before: -1})
	for i := 0; i < len(b.open); i++ {
		for _, r := range b.members {
			next, ok := b.after(b.open[i], r)
			if !ok || b.steps > maxSteps {
				return nil
			}
			b.next = append(b.next, next)
		}
		_, matched := b.closure(b.open[i], -1)
		b.atEnd = append(b.atEnd, matched)
	}
	// States before startedAt have no transitions, because matches returns there.
	b.next = append(make([]uint16, startedAt*b.classes), b.next...)
	b.atEnd = append(make([]bool, startedAt), b.atEnd...)
	for state := range b.atEnd {
		for c := range rune(utf8.RuneSelf) {
			b.ascii = append(b.ascii, b.next[state*b.classes+int(b.class(c))])
		}
	}
	made := b.automaton
	return &made
}

// after returns the state behind a character; ok is false if the automaton becomes too large.
func (b *automatonBuilder) after(p position, r rune) (state uint16, ok bool) {
	threads, matched := b.closure(p, r)
	if matched {
		return accepted, true
	}
	next := position{before: b.kind(r)}
	for _, pc := range threads {
		if inst := &b.program.Inst[pc]; matchesRune(inst, r) {
			next.threads = append(next.threads, inst.Out)
		}
	}
	if len(next.threads) == 0 && b.anchored {
		return rejected, true
	}
	slices.Sort(next.threads)
	next.threads = slices.Compact(next.threads)
	return b.state(next)
}

// state returns the number of a position.
func (b *automatonBuilder) state(p position) (state uint16, ok bool) {
	key := binary.AppendVarint(nil, int64(p.before))
	for _, pc := range p.threads {
		key = binary.AppendUvarint(key, uint64(pc))
	}
	if state, ok = b.states[string(key)]; ok {
		return state, true
	}
	if len(b.open) == maxStates {
		return 0, false
	}
	state = uint16(startedAt + len(b.open))
	b.states[string(key)] = state
	b.open = append(b.open, p)
	return state, true
}

// closure returns the instructions that threads reach before the character r, -1 for the end of the text, and whether
// one of them is a match. A match may begin at every position.
func (b *automatonBuilder) closure(p position, r rune) (threads []uint32, matched bool) {
	b.closures++
	flags := syntax.EmptyOpContext(p.before, r)
	stack := append(slices.Clone(p.threads), uint32(b.program.Start))
	for len(stack) > 0 {
		pc := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if b.visited[pc] == b.closures {
			continue
		}
		b.visited[pc] = b.closures
		b.steps++
		switch inst := &b.program.Inst[pc]; inst.Op {
		case syntax.InstMatch:
			return nil, true
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, inst.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^flags == 0 {
				stack = append(stack, inst.Out)
			}
		case syntax.InstFail:
		default:
			threads = append(threads, pc)
		}
	}
	return threads, false
}
