package plan

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"loaderd/loader/internal/codec"
	"loaderd/loader/mixture"
	"loaderd/packonline"
)

// Parent is the run that a run was forked from. The new run plans what the parent's steps before Step left.
type Parent struct {
	Run         string `json:"run"`
	ID          string `json:"id"` // of that run
	Step        uint64 `json:"step"`
	Fingerprint string `json:"fingerprint"`
	// Sources are how far each was read, by the numbers of the sources.
	Sources []InheritedSource `json:"sources"`
	State   uint64            `json:"state"`   // bytes of the planner's state with which the run begins
	Records uint64            `json:"records"` // behind the header that have that state
}

// InheritedSource is how far the parent of a run had read a source.
type InheritedSource struct {
	Epoch uint64 `json:"epoch,omitempty"` // that is read, from 0
	Taken uint64 `json:"taken"`           // documents of it
	// Sealed says that the parent knew where it ends: behind Last.
	Sealed bool   `json:"sealed,omitempty"`
	Last   uint64 `json:"last,omitempty"`
	// Removed says that it was removed, or that the run's configuration leaves it out: none of its documents follows.
	Removed bool   `json:"removed,omitempty"`
	From    uint64 `json:"from"` // sequence of the first document that the run needs
	// Config is how it is read, where the configuration of the run does not say so.
	Config *mixture.Source `json:"config,omitempty"`
}

// Place is how far the source is read.
func (s InheritedSource) Place() mixture.Place { return mixture.Place{Epoch: s.Epoch, Taken: s.Taken} }

// Heritage is a part of the planner's state with which a fork begins. All parts stand directly behind the header.
type Heritage struct {
	Part  uint64 // from 0
	State []byte
}

// Kind is that of its records.
func (Heritage) Kind() byte { return kindHeritage }

func (e Heritage) appendBody(b []byte) []byte {
	return append(binary.AppendUvarint(b, e.Part), e.State...)
}

func (e Heritage) String() string { return fmt.Sprintf("part %d of what the run inherited", e.Part) }

func readHeritage(r *codec.Cursor) Entry {
	e := Heritage{Part: r.Uvarint()}
	e.State = r.Bytes(len(r.Rest))
	return e
}

// WithState returns the header of a fork, and its records behind it, where no record has more than limit bytes.
func (h Header) WithState(limit int) (Header, [][]byte) {
	room := limit - recordOverhead - binary.MaxVarintLen64
	parent, parts := *h.Parent, [][]byte{}
	for part := range slices.Chunk(h.State, room) {
		parts = append(parts, EncodeRecord(Heritage{uint64(len(parts)), part}))
	}
	parent.Records = uint64(len(parts))
	h.Parent = &parent
	return h, parts
}

// check refuses a header whose parts do not fit each other.
func (h Header) check() error {
	if h.Parent != nil && len(h.Parent.Sources) != len(h.Sources) {
		return fmt.Errorf("%d sources of run %s were read, and the run has %d", len(h.Parent.Sources), h.Parent.Run, len(h.Sources))
	}
	return nil
}

// newFork returns the planner of a fork.
func newFork(h Header) (*Planner, error) {
	if h.State == nil || uint64(len(h.State)) != h.Parent.State {
		return nil, fmt.Errorf("run %s begins with a state of %d bytes, and %d are there", h.Run, h.Parent.State, len(h.State))
	}
	infos := h.Infos()
	known := make([]mixture.Known, len(infos))
	for i, s := range infos {
		known[i] = mixture.Known{Name: s.Name, Config: s.Config, Begin: mixture.Begin{First: s.Start, Last: s.Last, Sealed: s.Sealed}}
	}
	mix, err := mixture.Of(h.Config.mixture(), known)
	if err != nil {
		return nil, err
	}
	p, err := newPlanner(h.Config, mix, infos, newRefs(1))
	if err != nil {
		return nil, err
	}
	if err := p.meet(); err != nil {
		return nil, err
	}
	if err := p.RestoreState(h.State); err != nil {
		return nil, fmt.Errorf("what run %s inherited of run %s: %w", h.Run, h.Parent.Run, err)
	}
	return p, nil
}

// Heritage returns what stands in the header of a fork at a step, whose planner this is, and the state that follows the header.
func (p *Planner) Heritage(of Header, step uint64) (sources []SourceBegin, parent *Parent, state []byte) {
	b := p.blend
	state = p.AppendState(nil)
	parent = &Parent{Run: of.Run, ID: of.ID, Step: step, Fingerprint: of.Fingerprint, State: uint64(len(state))}
	needs := make([]uint64, len(b.infos))
	for i := range b.infos {
		needs[i] = b.infos[i].Floor(b.mix.Place(i))
	}
	for _, arrival := range p.arrivals() {
		ref := b.refs.of(arrival)
		needs[RefSource(ref)] = min(needs[RefSource(ref)], RefSequence(ref))
	}
	for i, s := range b.mix.Status() {
		sources = append(sources, b.infos[i].SourceBegin)
		x := InheritedSource{Epoch: s.Epoch, Taken: s.Taken, Sealed: s.Sealed, Last: s.Last, Removed: s.Removed, From: needs[i]}
		if config := b.mix.Config(i); !sameSource(config, p.config.Sources[s.Name]) {
			x.Config = &config
		}
		parent.Sources = append(parent.Sources, x)
	}
	return sources, parent, state
}

func sameSource(a, b mixture.Source) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// appendHeritage writes what Inherit takes: the number of steps, of each its bucket, the number of its rows, and these; the pieces that are left. Then, behind
// their length, the used tokens of documents that wait for a packer or in one.
func (p *Planner) appendHeritage(b []byte, previous *uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(p.due)))
	for _, s := range p.due {
		b = binary.AppendUvarint(b, uint64(s.Bucket))
		b = binary.AppendUvarint(b, uint64(len(s.Rows)))
		for _, row := range s.Rows {
			b = codec.AppendPieces(b, row, previous)
		}
	}
	b = codec.AppendPieces(b, p.left, previous)
	used := usedSpans{}
	p.unplaced(func(x packonline.Piece) {
		if spans := p.used.of(x.Doc); len(spans) > 0 {
			used[x.Doc] = spans
		}
	})
	return appendName(b, string(encodeUsed(used)))
}

// checkLeft refuses documents that are left and that their packer has passed.
func (p *Planner) checkLeft() error {
	for _, x := range p.left {
		if k := p.blend.parts[RefSource(p.blend.ref(x.Doc))].pack; x.Doc < p.packs[k].packer.Next() {
			return fmt.Errorf("arrival %d waits for a packer that is at %d", x.Doc, p.packs[k].packer.Next())
		}
	}
	return nil
}

// restoreHeritage reads what appendHeritage wrote.
func (p *Planner) restoreHeritage(r *codec.Cursor, previous *uint64) {
	p.due, p.left, p.used, p.hints = nil, nil, nil, nil
	for range r.Bounded(uint64(len(r.Rest)) / 2) {
		s := Step{Bucket: int32(r.Bounded(math.MaxInt32))}
		rows := int(r.Bounded(uint64(len(r.Rest))))
		if r.Err == nil && !p.config.hasStep(int(s.Bucket), rows) {
			r.Fail(fmt.Errorf("a step of %d rows of %d is none of the run's", rows, s.Bucket))
		}
		for range rows {
			if r.Err != nil {
				return
			}
			row := r.Pieces(previous)
			if len(row) > 0 {
				checkRow(r, row, int64(s.Bucket))
			}
			s.Rows = append(s.Rows, row)
		}
		p.due = append(p.due, s)
	}
	p.left = r.Pieces(previous)
	if !slices.IsSortedFunc(p.left, func(a, b packonline.Piece) int { return compare(a.Doc, b.Doc+1) }) || slices.ContainsFunc(p.left, func(x packonline.Piece) bool { return x.Start > 0 }) {
		r.Fail(fmt.Errorf("%d documents that are left do not come in the order of their arrival", len(p.left)))
	}
	encoded := r.Bytes(int(r.Bounded(uint64(len(r.Rest)))))
	if r.Err != nil || len(encoded) == 0 {
		return
	}
	used, err := readUsed(encoded, p.names.name(p.cursor.Next(), 0)-1)
	if err != nil {
		r.Fail(err)
		return
	}
	waits := map[uint64]bool{}
	p.unplaced(func(x packonline.Piece) { waits[x.Doc] = true })
	for arrival := range used {
		if !waits[arrival] {
			r.Fail(fmt.Errorf("tokens of arrival %d are used, and nothing of it waits for a packer", arrival))
			return
		}
	}
	p.used = used
}
