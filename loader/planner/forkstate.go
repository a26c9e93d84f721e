package planner

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"loaderd/loader/internal/codec"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/packonline"
)

// newForkPlanner returns the planner of a fork.
func newForkPlanner(h planrecord.Header) (*Planner, error) {
	if h.State == nil || uint64(len(h.State)) != h.Parent.State {
		return nil, fmt.Errorf("run %s begins with a state of %d bytes, but has %d", h.Run, h.Parent.State,
			len(h.State))
	}
	infos := h.Infos()
	known := make([]mixture.ExistingSource, len(infos))
	for i, s := range infos {
		known[i] = mixture.ExistingSource{Name: s.Name, Config: s.Config,
			Range: mixture.SourceRange{First: s.Start, Last: s.Last,
				Sealed: s.Sealed}}
	}
	mix, err := mixture.NewForFork(h.Config.Mixture(), known)
	if err != nil {
		return nil, err
	}
	p, err := newPlanner(h.Config, mix, infos, newRefs(1))
	if err != nil {
		return nil, err
	}
	if err := p.RestoreState(h.State); err != nil { // it adds the sources, for the schedule that the run inherited
		return nil, fmt.Errorf("what run %s inherited of run %s: %w", h.Run, h.Parent.Run, err)
	}
	return p, nil
}

// ForkState returns the header fields of a fork at a step, and the state that follows the header. p is the planner of
// the fork.
func (p *Planner) ForkState(of planrecord.Header,
	step uint64) (sources []plan.SourceBegin, parent *planrecord.Parent, state []byte) {
	b := p.sources
	state = p.AppendState(nil)
	parent = &planrecord.Parent{Run: of.Run, ID: of.ID, Step: step, Fingerprint: of.Fingerprint, State: uint64(len(state))}
	if !p.schedule.IsConstant() {
		schedule := p.schedule
		parent.Schedule = &schedule
	}
	needs := make([]uint64, len(b.infos))
	for i := range b.infos {
		needs[i] = b.infos[i].LowWatermark(b.mix.Position(i))
	}
	for _, arrival := range p.bufferedArrivals() {
		ref := b.refs.refOf(arrival)
		needs[plan.RefSource(ref)] = min(needs[plan.RefSource(ref)], plan.RefSequence(ref))
	}
	for i, s := range b.mix.Status() {
		sources = append(sources, b.infos[i].SourceBegin)
		x := planrecord.ParentSource{Epoch: s.Epoch, Taken: s.Taken, Sealed: s.Sealed, Last: s.Last, Removed: s.Removed,
			From: needs[i]}
		if config := b.mix.SourceConfig(i); !equalSources(config, p.config.Sources[s.Name]) {
			x.Config = &config
		}
		parent.Sources = append(parent.Sources, x)
	}
	return sources, parent, state
}

func equalSources(a, b mixture.Source) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// appendForkState writes what Inherit applies: the number of steps and, of each, its bucket, the number of its rows
// and the rows; then the pieces that are left. The used tokens of documents in a packer or in left follow, preceded
// by their length.
func (p *Planner) appendForkState(b []byte, previous *uint64) []byte {
	b = binary.AppendUvarint(b, uint64(len(p.fork.inheritedSteps)))
	for _, s := range p.fork.inheritedSteps {
		b = binary.AppendUvarint(b, uint64(s.Bucket))
		b = binary.AppendUvarint(b, uint64(len(s.Rows)))
		for _, row := range s.Rows {
			b = codec.AppendPieces(b, row, previous)
		}
	}
	b = codec.AppendPieces(b, p.fork.inheritedDocuments, previous)
	used := usedSpans{}
	p.visitUnpacked(func(x packonline.Piece) {
		if spans := p.fork.usedTokens.spansOf(x.Doc); len(spans) > 0 {
			used[x.Doc] = spans
		}
	})
	return codec.AppendString(b, string(encodeUsedSpans(used)))
}

// checkInherited rejects documents in left that their packer has already passed.
func (p *Planner) checkInherited() error {
	for _, x := range p.fork.inheritedDocuments {
		if k := p.sources.states[plan.RefSource(p.sources.refOf(x.Doc))].packerIndex; x.Doc < p.packers[k].packer.NextSeq() {
			return fmt.Errorf("arrival %d waits for a packer that is at %d", x.Doc, p.packers[k].packer.NextSeq())
		}
	}
	return nil
}

// restoreForkState reads what appendForkState wrote.
func (p *Planner) restoreForkState(r *codec.Cursor, previous *uint64) {
	p.fork.inheritedSteps, p.fork.inheritedDocuments, p.fork.usedTokens, p.fork.hints = nil, nil, nil, nil
	for range r.BoundedUvarint(uint64(len(r.Buf)) / 2) {
		s := plan.Step{Bucket: int32(r.BoundedUvarint(math.MaxInt32))}
		rows := int(r.BoundedUvarint(uint64(len(r.Buf))))
		if r.Err == nil && !p.schedule.CanHave(p.config, int(s.Bucket), rows) {
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
		p.fork.inheritedSteps = append(p.fork.inheritedSteps, s)
	}
	p.fork.inheritedDocuments = r.Pieces(previous)
	ascending := func(a, b packonline.Piece) int { return cmp.Compare(a.Doc, b.Doc+1) }
	inside := func(x packonline.Piece) bool { return x.Start > 0 }
	if !slices.IsSortedFunc(p.fork.inheritedDocuments, ascending) ||
		slices.ContainsFunc(p.fork.inheritedDocuments, inside) {
		r.Fail(fmt.Errorf("%d remaining documents are not in the order of their arrival",
			len(p.fork.inheritedDocuments)))
	}
	encoded := r.Bytes(int(r.BoundedUvarint(uint64(len(r.Buf)))))
	if r.Err != nil || len(encoded) == 0 {
		return
	}
	used, err := readUsedSpans(encoded, p.names.name(p.cursor.Next(), 0)-1)
	if err != nil {
		r.Fail(err)
		return
	}
	waits := map[uint64]bool{}
	p.visitUnpacked(func(x packonline.Piece) { waits[x.Doc] = true })
	for arrival := range used {
		if !waits[arrival] {
			r.Fail(fmt.Errorf("tokens of arrival %d are used, and nothing of it waits for a packer", arrival))
			return
		}
	}
	p.fork.usedTokens = used
}
