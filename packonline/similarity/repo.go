package similarity

// repo ranks by paths: documents of the same file first, then of the same folder, then of the parent folder (the
// paper's REPO, which concatenates the files of a folder). Within each of these, earlier documents are first. So a
// query reads the documents of each folder in that order, up to the last one that it returns.
type repo struct {
	bound   int
	folders map[uint64]*folder // keyed by the hash of a path or folder
}

// enough is the number of related documents after which parent folders are not queried.
const enough = 256

func newRepo(bound int) *repo { return &repo{bound: bound, folders: map[uint64]*folder{}} }

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
func (r *repo) top(x *Index, q question, h *Hint, dst []Candidate) []Candidate {
	left := r.bound
	for i, f := range h.Path {
		list := r.folders[f]
		if list.size > left {
			break
		}
		left -= list.size
		score := int32(len(h.Path) + 1 - i)
		for seat := range list.fitting(q.longest) {
			if x.scores[seat] != 0 || !x.fits(q, seat) {
				continue
			}
			x.scores[seat] = score
			x.touched = append(x.touched, seat)
			if dst = append(dst, Candidate{x.entries[seat].slot, score}); len(dst) == q.most {
				break
			}
		}
		if len(dst) == q.most || len(dst) >= enough {
			break
		}
	}
	for _, seat := range x.touched {
		x.scores[seat] = 0
	}
	x.touched = x.touched[:0]
	return dst
}
