package similarity

// repo ranks by paths: documents of the same file first, then of the same folder, then of the parent folder (the
// paper's REPO, which concatenates the files of a folder). Within each of these, earlier documents are first. So a
// query reads the documents of each folder in that order, up to the last one that it returns.
type repo struct {
	maxPostings int
	folders     map[uint64]*folder // keyed by the hash of a path or folder
}

// enoughRelated is the number of related documents after which parent folders are not queried.
const enoughRelated = 256

func newRepo(bound int) *repo { return &repo{maxPostings: bound, folders: map[uint64]*folder{}} }

func (r *repo) add(x *Index, seat int32, h *Hint) {
	for _, f := range h.Path {
		list := r.folders[f]
		if list == nil {
			list = &folder{}
			r.folders[f] = list
		}
		list.add(member{x.entries[seat].seq, seat, x.entries[seat].length})
	}
}

func (r *repo) remove(x *Index, seat int32, h *Hint) {
	for _, f := range h.Path {
		list := r.folders[f]
		if list.remove(x.entries[seat].seq, seat); list.size == 0 {
			delete(r.folders, f)
		}
	}
	x.free = append(x.free, seat)
}

// top marks the documents found in x.scores, because parent folders contain them too.
func (r *repo) top(x *Index, q query, h *Hint, dst []Candidate) []Candidate {
	left := r.maxPostings
	for i, f := range h.Path {
		list := r.folders[f]
		if list.size > left {
			break
		}
		left -= list.size
		score := int32(len(h.Path) + 1 - i)
		for seat := range list.fittingSeats(q.maxLength) {
			if x.scores[seat] != 0 || !x.canMatch(q, seat) {
				continue
			}
			x.scores[seat] = score
			x.scoredSeats = append(x.scoredSeats, seat)
			if dst = append(dst, Candidate{x.entries[seat].slot, score}); len(dst) == q.maxResults {
				break
			}
		}
		if len(dst) == q.maxResults || len(dst) >= enoughRelated {
			break
		}
	}
	for _, seat := range x.scoredSeats {
		x.scores[seat] = 0
	}
	x.scoredSeats = x.scoredSeats[:0]
	return dst
}
