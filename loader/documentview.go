package loader

import (
	"context"
	"fmt"
	"slices"

	"loaderd/loader/document"
	"loaderd/loader/fault"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/state"
)

// ViewDocument returns one document by its plan reference. For an unused document, Skip has the reason, as far as the
// document itself shows it.
func (r *Run) ViewDocument(ctx context.Context, document uint64) (document.View, error) {
	return r.streams.ViewDocument(ctx, document)
}

// NextDocuments returns the plan references of the next documents that the planner will read: up to n of a source.
// Without a name it returns those of the only source, or the next one of each of several sources.
func (r *Run) NextDocuments(ctx context.Context, source string, n int) ([]uint64, error) {
	stats := r.Stats()
	h, _ := r.plan.Header()
	all, err := r.streams.RunStreams(ctx, h)
	if err != nil {
		return nil, &fault.Error{Reason: fault.SourceDown, Message: "cannot open the document streams", Err: err,
			Advice: "try again"}
	}
	if len(stats.Sources) == 0 {
		return nil, &fault.Error{Reason: fault.NotLeading,
			Message: "the leader of the run has not yet reported how far it has read its sources", Advice: "ask again"}
	}
	infos := r.streams.SourceInfos()
	if source != "" && !slices.ContainsFunc(infos, func(x plan.SourceInfo) bool { return x.Name == source }) {
		return nil, &fault.Error{Reason: fault.InvalidTicket, Message: fmt.Sprintf("the run has no source %q", source),
			Advice: "info names its sources"}
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
		for _, sequence := range nextSequences(h.Config.Seed, x, stats.Sources[i], state.Last, most) {
			refs = append(refs, plan.Ref(i, sequence))
		}
	}
	return refs, nil
}

// nextSequences returns the sequences of the next documents of a source, n at most, in the order in which the run reads
// them. stored is the last one in its stream.
func nextSequences(seed uint64, info plan.SourceInfo, s state.SourceStats, stored uint64, n int) (sequences []uint64) {
	begin := mixture.SourceRange{First: info.Start, Last: info.Last, Sealed: info.Sealed}
	last := stored
	if s.Sealed {
		last = s.Last
	}
	epoch, taken := s.Epoch, s.Taken
	walk := mixture.NewEpochOrder(seed, s.Name, info.Config, begin, last, epoch)
	for len(sequences) < n && !s.Exhausted && last+1 > begin.First {
		if taken < last+1-begin.First {
			sequences = append(sequences, walk.At(taken))
			taken++
			continue
		}
		if epoch++; !s.Sealed || !info.Config.Epochs.HasEpochAfter(epoch) {
			break
		}
		taken, walk = 0, mixture.NewEpochOrder(seed, s.Name, info.Config, begin, last, epoch)
	}
	return sequences
}
