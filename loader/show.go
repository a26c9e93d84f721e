package loader

import (
	"context"
	"fmt"
	"slices"

	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/packonline"
)

// Shown is a document as it stands in its stream, for people: one that is not used too.
type Shown struct {
	Info DocumentInfo
	Document
	Problem string // of an undecodable one: the reason's name and a sentence
	// IDs are the producers' ids of the documents of a message with several, by their index; empty for none.
	IDs []string
}

// Inner is one of the documents of a message with several.
type Inner struct {
	Index  int32    // from 0
	Start  int32    // its first token among those of the message
	ID     string   // producer's id, empty for none
	Weight *float32 // as Content.Weight
}

// Inner returns the document that a token is of; false for a message that is one document, and for one without that token.
func (s Shown) Inner(token int32) (Inner, bool) {
	if s.Docs == nil || int(token) >= s.Len() {
		return Inner{}, false
	}
	i, start := s.doc(token)
	in := Inner{Index: int32(i), Start: start, Weight: s.Docs[i].Weight}
	if i < len(s.IDs) {
		in.ID = s.IDs[i]
	}
	return in, true
}

// LossTokens returns how many of tokens [start, end) have a loss; false where the document has not so many tokens.
func (s Shown) LossTokens(start, end int32) (int32, bool) {
	if int(end) > s.Len() {
		return 0, false
	}
	n := end - start
	s.Loss.Masked(packonline.Piece{Start: start, Length: n}, func(from, to int32) { n -= to - from })
	return n, true
}

// Show returns one document, as the plan names it. Of those that are not used Skip says why, as far as the document itself tells.
func (r *Run) Show(ctx context.Context, document uint64) (Shown, error) {
	return r.office.streams.Show(ctx, document)
}

// Show returns a document that the plan names, or may name.
func (s *streams) Show(ctx context.Context, ref uint64) (Shown, error) {
	x, sequence, err := s.of(ctx, ref)
	if err != nil {
		return Shown{}, err
	}
	shown, err := x.Documents.Show(ctx, sequence)
	if err != nil {
		return shown, err
	}
	source := s.infos()[plan.RefSource(ref)]
	shown.Info.Source = source.Name
	if shown.Skip == "" && len(shown.Parts) == 0 && !source.Config.Split.Takes(shown.ID, sequence) {
		shown.Skip = plan.SkipSplit
	}
	return shown, nil
}

// Upcoming returns the next documents that the planner takes, as the plan names them: n of a source, or fewer where fewer are there. Without a name it
// returns those of the only source, or of several the next of each.
func (r *Run) Upcoming(ctx context.Context, source string, n int) ([]uint64, error) {
	stats := r.Stats()
	h, _ := r.plan.head()
	all, err := r.office.streams.all(ctx, h)
	if err != nil {
		return nil, &Error{Reason: SourceDown, Message: "cannot open the document streams", Err: err, Do: "try again"}
	}
	if len(stats.Sources) == 0 {
		return nil, &Error{Reason: NotLeading, Message: "no daemon that plans the run has told how far its sources are read", Do: "ask again"}
	}
	infos := r.office.streams.infos()
	if source != "" && !slices.ContainsFunc(infos, func(x plan.SourceInfo) bool { return x.Name == source }) {
		return nil, &Error{Reason: BadTicket, Message: fmt.Sprintf("the run has no source %q", source), Do: "info names its sources"}
	}
	var refs []uint64
	for i, x := range infos {
		if i >= len(stats.Sources) || i >= len(all) || source != "" && x.Name != source || stats.Sources[i].Removed {
			continue
		}
		most := n
		if source == "" && len(infos) > 1 {
			most = 1
		}
		state, err := all[i].Documents.State(ctx)
		if err != nil {
			return nil, err
		}
		for _, sequence := range follows(h.Config.Seed, x, stats.Sources[i], state.Last, most) {
			refs = append(refs, plan.Ref(i, sequence))
		}
	}
	return refs, nil
}

// follows returns the sequences of the next documents of a source, n at most, in the order in which the run takes them. stored is the last one that its
// stream holds.
func follows(seed uint64, info plan.SourceInfo, s SourceStats, stored uint64, n int) (sequences []uint64) {
	begin := mixture.Begin{First: info.Start, Last: info.Last, Sealed: info.Sealed}
	last := stored
	if s.Sealed {
		last = s.Last
	}
	epoch, taken := s.Epoch, s.Taken
	walk := mixture.WalkOf(seed, s.Name, info.Config, begin, last, epoch)
	for len(sequences) < n && !s.UsedUp && last+1 > begin.First {
		if taken < last+1-begin.First {
			sequences = append(sequences, walk.At(taken))
			taken++
			continue
		}
		if epoch++; !s.Sealed || !info.Config.Epochs.Another(epoch) {
			break
		}
		taken, walk = 0, mixture.WalkOf(seed, s.Name, info.Config, begin, last, epoch)
	}
	return sequences
}
