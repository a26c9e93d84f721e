package planner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"loaderd/loader/internal/codec"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

// stateVersion is the version of AppendState's format:
//
//	version byte; in version 2, which a run with a schedule has, the schedule (JSON preceded by its length); in
//	version 3, which a run has whose row lengths change, also these (rowLengths.appendState)
//	uvarints: last document, next step, the totals in the order of Counts
//	the sources (sourceSet.appendState), the packers, the shuffle window, each in its own format
//	for each bucket: the number of rows of its incomplete atom and each of these rows; the number of atoms of the
//	row under construction and, unless 0, the row; if either is present, the documents that had arrived at its first
//	row or atom, and those of its packer
//	the queues of rows that wait for a step (queues.appendState); what a fork begins with (appendForkState)
//	which tokens of the buffered documents have no loss (losses.appendState)
//	if filters have rejected documents or were changed by controls: filterState as JSON preceded by its length
//
// An atom in the window is encoded as the index of its packer (if the run has several), the index of its bucket, the
// number of its rows, and each row.
const (
	stateVersion           = 1
	scheduledStateVersion  = 2
	rowLengthsStateVersion = 3
)

// AppendState appends the planner's whole state, which refers to documents but contains no tokens.
func (p *Planner) AppendState(b []byte) []byte {
	switch {
	case p.schedule.IsConstant():
		b = append(b, stateVersion)
	case p.schedule.ChangesBuckets():
		b = p.rowLengths.appendState(codec.AppendString(append(b, rowLengthsStateVersion), p.schedule.Encode()))
	default:
		b = codec.AppendString(append(b, scheduledStateVersion), p.schedule.Encode())
	}
	b = binary.AppendUvarint(b, p.cursor.Last())
	b = binary.AppendUvarint(b, p.stepIndex)
	for _, n := range p.counts.fields() {
		b = binary.AppendUvarint(b, uint64(*n))
	}
	b = p.sources.appendState(b, p.bufferedArrivals())
	for i := range p.packers {
		b = p.packers[i].packer.AppendState(b)
	}
	var previous uint64
	appendAtom := func(b []byte, a *atom) []byte {
		b = binary.AppendUvarint(b, uint64(a.rows()))
		for i := range a.rows() {
			b = codec.AppendPieces(b, a.row(i), &previous)
		}
		return b
	}
	b = p.window.AppendState(b, func(b []byte, a atom) []byte {
		if len(p.packers) > 1 {
			b = binary.AppendUvarint(b, uint64(a.packerIndex))
		}
		return appendAtom(binary.AppendUvarint(b, uint64(a.bucket)), &a)
	})
	for l := range p.packers.rowBuilders() {
		b = appendAtom(b, &l.openAtom)
		b = binary.AppendUvarint(b, uint64(l.mergedAtoms))
		if l.mergedAtoms > 0 {
			b = codec.AppendPieces(b, l.openRow, &previous)
		}
		if l.isOpen() {
			b = binary.AppendUvarint(b, uint64(l.startArrived))
			b = binary.AppendUvarint(b, uint64(l.startPacked))
		}
	}
	b = p.queues.appendState(b, &previous)
	b = p.appendForkState(b, &previous)
	return p.Filters.appendState(p.losses.appendState(b, p.bufferedNames))
}

// maxScheduleBytes bounds the encoded size of a schedule in bytes. 1024 phases of 64 row lengths each have less.
const maxScheduleBytes = 1 << 22

// RestoreState replaces the state of a planner of the same configuration. It accepts exactly the output of
// AppendState.
func (p *Planner) RestoreState(b []byte) error {
	r, err := p.restoreSchedule(b)
	if err != nil {
		return fmt.Errorf("restore planner: %w", err)
	}
	p.Filters.changed = nil
	p.cursor = plan.PositionAfter(r.Uvarint())
	p.stepIndex = r.Uvarint()
	for _, n := range p.counts.fields() {
		*n = int64(r.Uvarint())
	}
	if err := p.restoreSources(&r); err != nil {
		return fmt.Errorf("restore planner: %w", err)
	}
	if r.Err != nil {
		return fmt.Errorf("restore planner: %w", r.Err)
	}
	for i := range p.packers {
		packer := p.packers[i].packer
		if r.Buf, err = packer.RestoreState(r.Buf); err != nil {
			return err
		}
		if next := packer.NextSeq(); next > p.names.name(p.cursor.Next(), 0) {
			return fmt.Errorf("restore planner: it is at document %s, its packer before document %d", p.cursor, next)
		}
	}
	p.sources.windowTokens = 0
	var previous uint64
	r.Buf, err = p.window.RestoreState(r.Buf, func(b []byte) (atom, []byte, error) {
		r := codec.Cursor{Buf: b}
		pack := 0
		if len(p.packers) > 1 {
			pack = int(r.BoundedUvarint(uint64(len(p.packers)) - 1))
		}
		k := &p.packers[pack]
		bucket := int(r.BoundedUvarint(uint64(len(k.rowBuilders)) - 1))
		a := readAtom(&r, &k.rowBuilders[bucket], k.atomRows, &previous)
		a.packerIndex, a.bucket = pack, bucket
		p.sources.checkBuffered(&r, a.pieces)
		p.sources.windowTokens += plan.RowTokens(a.pieces)
		if r.Err == nil && a.rows() == 0 {
			r.Fail(errors.New("an atom without rows waits in the window"))
		}
		return a, r.Buf, r.Err
	})
	if err != nil {
		return err
	}
	for l := range p.packers.rowBuilders() {
		p.restoreRowBuilder(l, &r, &previous)
	}
	if p.schedule.IsConstant() {
		p.schedule.Steps, p.schedule.Tokens = p.stepIndex, p.counts.Tokens
	}
	p.queues.restoreState(&r, &previous, p.counts.Arrived, !p.schedule.IsConstant())
	p.restoreForkState(&r, &previous)
	p.losses = readLosses(&r, p.bufferedNames)
	if r.Err == nil {
		if err := p.sources.refs.checkBuffered(p.bufferedArrivals()); err != nil {
			r.Fail(err)
		} else if err := p.checkInherited(); err != nil {
			r.Fail(err)
		}
	}
	p.Filters.restoreState(&r, &p.counts.Skipped)
	if r.Err == nil && len(r.Buf) > 0 {
		r.Err = fmt.Errorf("%d bytes too many", len(r.Buf))
	}
	if r.Err != nil {
		return fmt.Errorf("restore planner: %w", r.Err)
	}
	return nil
}

// restoreSchedule reads the version of a state and its schedule, and returns what follows.
func (p *Planner) restoreSchedule(b []byte) (r codec.Cursor, err error) {
	if len(b) == 0 || b[0] < stateVersion || b[0] > rowLengthsStateVersion {
		return r, fmt.Errorf("state format is not version %d to %d", stateVersion, rowLengthsStateVersion)
	}
	r.Buf = b[1:]
	if p.schedule = runconfig.NewSchedule(p.config); b[0] > stateVersion {
		p.schedule, err = p.config.RestoreSchedule(r.Bytes(int(r.BoundedUvarint(maxScheduleBytes))))
		if err != nil {
			return r, err
		}
	}
	p.rowLengths.replaced = replacedPackers{}
	if b[0] == rowLengthsStateVersion {
		return r, p.restoreRowLengths(&r)
	}
	return r, p.initRowLengths(p.schedule.Buckets(p.config))
}

// restoreRowBuilder reads the state of a line. It rejects a complete atom or row, which would have left the line.
func (p *Planner) restoreRowBuilder(l *rowBuilder, r *codec.Cursor, previous *uint64) {
	_, k := p.packers.rowBuilderOf(&l.openAtom)
	most := k.atomRows - 1
	if k.joinsRows { // atoms of such a method end with a document
		most = 0
	}
	a := readAtom(r, l, most, previous)
	l.openAtom.pieces, l.openAtom.ends = a.pieces, a.ends
	l.openRow = nil
	if l.mergedAtoms = int(r.BoundedUvarint(uint64(k.rowAtoms) - 1)); l.mergedAtoms > 0 {
		l.openRow = r.Pieces(previous)
		checkRow(r, l.openRow, int64(l.mergedAtoms)*int64(l.packedLength))
	}
	l.startArrived, l.startPacked = 0, 0
	if l.isOpen() {
		l.startArrived = int64(r.BoundedUvarint(uint64(p.counts.Arrived)))
		l.startPacked = int64(r.BoundedUvarint(uint64(k.packer.Counts().Documents)))
	}
	if r.Err == nil && p.isOverdue(k, l) {
		r.Fail(fmt.Errorf("a row has waited for other atoms while %d documents arrived: more than steps.max_wait or "+
			"packing.max_age allow", p.counts.Arrived-l.startArrived))
	}
}

func (c *Counts) fields() []*int64 {
	return slices.Concat([]*int64{&c.Arrived}, skipFields(&c.Skipped), []*int64{&c.Cut, &c.Rows, &c.Slots, &c.Tokens,
		&c.MaskedTokens, &c.LeftTokens, &c.AgeMax, &c.WaitMax})
}

// skipFields returns the counts in the order in which a state holds them, without those of filters (filterState).
func skipFields(s *plan.Skips) (out []*int64) {
	i := 0
	for why := range s.All() {
		if why != plan.SkipFiltered {
			out = append(out, &s[i])
		}
		i++
	}
	return out
}

func (r *dedupWindow) appendState(b []byte) []byte {
	n := uint64(len(r.ring))
	held := min(n, r.next)
	b = binary.AppendUvarint(b, n)
	b = binary.AppendUvarint(b, r.next)
	for k := r.next - held; k < r.next; k++ {
		b = binary.LittleEndian.AppendUint64(b, r.ring[k%n])
	}
	return b
}

func (r *dedupWindow) restoreState(in *codec.Cursor) error {
	n, next := in.Uvarint(), in.Uvarint()
	if n != uint64(len(r.ring)) {
		return fmt.Errorf("restore dedupe window: state has a window of %d documents, the configuration %d", n, len(r.ring))
	}
	held := min(n, next)
	if uint64(len(in.Buf))/8 < held {
		return fmt.Errorf("restore dedupe window: %w", codec.ErrTruncated)
	}
	*r = *newDedupWindow(len(r.ring))
	r.next = next - held
	for range held {
		r.add(binary.LittleEndian.Uint64(in.Buf))
		in.Buf = in.Buf[8:]
	}
	return nil
}

// readAtom reads an atom of a line, with at most the given number of rows.
func readAtom(r *codec.Cursor, l *rowBuilder, most int, previous *uint64) (a atom) {
	for range r.BoundedUvarint(uint64(most)) {
		row := r.Pieces(previous)
		checkRow(r, row, int64(l.packedLength))
		a.addRow(row)
	}
	return a
}

// checkBuffered rejects pieces of documents that are not buffered.
func (b *sourceSet) checkBuffered(r *codec.Cursor, pieces []packonline.Piece) {
	for _, x := range pieces {
		if !b.refs.hasArrival(b.names.position(x.Doc)) {
			r.Fail(fmt.Errorf("an atom with tokens of arrival %d waits, which is not named", b.names.position(x.Doc)))
			return
		}
	}
}
