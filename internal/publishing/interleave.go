package publishing

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"iter"
	"slices"

	"loaderd/internal/corpus/record"
	"loaderd/stream/publish"
)

// maxOpenInputs is how many inputs are read at the same time when they are interleaved.
const maxOpenInputs = 32

// span is the part of the stream, from 0 to 1, over which the documents of an input are distributed. It depends only
// on the sizes of all inputs, so an input that is not read does not change the order of the others.
type span struct {
	input         int // index
	start, length float64
}

// at returns the place of a document in the stream. The conversion prevents a fused multiply-add, which would make the
// order depend on the processor.
func (s span) at(fraction float64) float64 { return s.start + float64(s.length*fraction) }

// planLanes divides inputs of the given sizes into lanes of about the same size. The spans of a lane are consecutive,
// in a keyed order, and cover the whole stream, so inputs of any size end together. A last lane has the inputs of
// size 0, such as standard input: they are at the end of the stream, in the given order.
func planLanes(sizes []int64, lanes int) [][]span {
	type sized struct {
		input int
		key   uint64
	}
	var all []sized
	var last []span
	for i, size := range sizes {
		if size > 0 {
			all = append(all, sized{i, orderKey(i)})
		} else {
			last = append(last, span{input: i, start: 1})
		}
	}
	slices.SortFunc(all, func(a, b sized) int {
		return cmp.Or(cmp.Compare(sizes[b.input], sizes[a.input]), cmp.Compare(a.key, b.key))
	})
	members, loads := make([][]sized, min(lanes, len(all))), make([]int64, min(lanes, len(all)))
	for _, in := range all {
		least := slices.Index(loads, slices.Min(loads))
		members[least] = append(members[least], in)
		loads[least] += sizes[in.input]
	}
	plan := make([][]span, 0, len(members)+1)
	for i, lane := range members {
		slices.SortFunc(lane, func(a, b sized) int { return cmp.Compare(a.key, b.key) })
		spans, begin := make([]span, len(lane)), 0.0
		for k, in := range lane {
			spans[k] = span{in.input, begin, float64(sizes[in.input]) / float64(loads[i])}
			begin = spans[k].at(1)
		}
		plan = append(plan, spans)
	}
	if len(last) > 0 {
		plan = append(plan, last)
	}
	return plan
}

// orderKey returns the sort key of an input.
func orderKey(index int) uint64 {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("loaderd publish --interleave\x00"), uint64(index)))
	return binary.BigEndian.Uint64(sum[:])
}

// lane reads inputs one after another. Its next element is the document or error that it has read, or the beginning
// of its next input.
type lane struct {
	spans []span // of inputs that are not read to their end
	input *openInput
	place float64 // of the next element
}

// openInput is an input that is being read.
type openInput struct {
	*inputPublisher // nil until its first element is published
	next            func() (record.Document, error, bool)
	stop            func()
	document        record.Document
	err             error
	followed        bool    // its record needs no Expect
	fraction        float64 // of the input, up to the end of the element
	random          uint64  // state of a generator
}

// endInput ends the input of a lane.
func (l *lane) endInput(ctx context.Context) (err error) {
	if l.input != nil {
		l.input.stop()
		if r, ok := l.input.openRecord(); ok {
			err = r.Release(ctx)
		}
		l.input = nil
	}
	if l.spans = l.spans[1:]; len(l.spans) > 0 {
		l.place = l.spans[0].start
	}
	return err
}

// openRecord returns the record of the input, if it has one and is open.
func (o *openInput) openRecord() (*publish.Record, bool) {
	if o.inputPublisher == nil {
		return nil, false
	}
	return o.record, o.record != nil
}

// read reads the next element. It returns false at the end of the input.
func (o *openInput) read(ctx context.Context) (more bool, err error) {
	if o.document, o.err, more = o.next(); !more {
		if o.inputPublisher == nil {
			return false, nil
		}
		return false, o.finish(ctx)
	}
	r, ok := o.openRecord()
	if ok && !o.followed && o.err == nil && len(o.document.Data) > 0 {
		o.followed, err = r.Expect(ctx, o.document.Origin, Message(o.document, o.options.Fingerprint))
	}
	return true, err
}

// advance sets the end of the element, and returns a keyed random place within it. Without randomness, the elements of
// inputs of the same size would be at the same places.
func (o *openInput) advance(end float64) (place float64) {
	begin := o.fraction
	o.fraction = max(begin, end)
	o.random += 0x9e3779b97f4a7c15 // splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators"
	z := (o.random ^ o.random>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	uniform := float64((z^z>>31)>>11) / (1 << 53)
	return begin + float64(uniform*(o.fraction-begin))
}

// publishInterleaved publishes the inputs together. The order of documents depends only on the list of inputs, their
// sizes and contents. Each input keeps its own order and has its own record. After a kill, the documents that are
// committed are a beginning of this order, so the next publishing continues it.
func (p *Session) publishInterleaved(ctx context.Context) error {
	sizes := make([]int64, len(p.inputs))
	for i, in := range p.inputs {
		sizes[i] = in.Bytes
	}
	var lanes []*lane
	for _, spans := range planLanes(sizes, maxOpenInputs) {
		l := &lane{spans: spans, place: spans[0].start}
		lanes = append(lanes, l)
		defer func() {
			if l.input != nil {
				l.input.stop()
			}
		}()
	}
	for len(lanes) > 0 {
		l := slices.MinFunc(lanes, func(a, b *lane) int { return cmp.Compare(a.place, b.place) })
		more, err := p.publishNext(ctx, l)
		switch {
		case errors.Is(err, errLimitReached):
			return nil
		case err != nil && !p.recordInputError(err):
			return err
		case err == nil && more:
			continue
		case err == nil:
			p.summary.InputsComplete++
		}
		if err := l.endInput(ctx); err != nil {
			return err
		}
		if len(l.spans) == 0 {
			lanes = slices.DeleteFunc(lanes, func(x *lane) bool { return x == l })
		}
	}
	return nil
}

// publishNext publishes the element that a lane has read, and reads the next one of the same input. more is false at
// the end of the input.
func (p *Session) publishNext(ctx context.Context, l *lane) (more bool, err error) {
	in := p.inputs[l.spans[0].input]
	if l.input == nil {
		if l.input, err = p.startInput(ctx, l); l.input == nil || err != nil {
			return false, err
		}
	} else {
		// Opened late, because the record does not follow the stream before it has a document.
		if l.input.inputPublisher == nil {
			if l.input.inputPublisher, err = p.openInput(ctx, in); l.input.inputPublisher == nil || err != nil {
				return false, err
			}
		}
		if err := l.input.publish(ctx, l.input.document, l.input.err); err != nil {
			return false, err
		}
	}
	more, err = l.input.read(ctx)
	l.place = l.spans[0].at(l.input.advance(in.Fraction()))
	return more, err
}

// startInput begins to read the next input of a lane. It returns nil if the input is complete according to its record.
func (p *Session) startInput(ctx context.Context, l *lane) (*openInput, error) {
	in := p.inputs[l.spans[0].input]
	if in.Fingerprint != "" && !p.options.Unrecorded {
		state, err := p.publisher.State(ctx, in.Name, in.Fingerprint)
		if err != nil {
			return nil, err
		}
		if state == publish.Complete {
			if to, err := p.openInput(ctx, in); to == nil || err != nil {
				return nil, err
			}
		}
	}
	o := &openInput{random: orderKey(l.spans[0].input)}
	o.next, o.stop = iter.Pull2(in.Documents(ctx))
	return o, nil
}
