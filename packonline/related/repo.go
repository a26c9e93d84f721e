package related

// repo ranks by paths: documents of the same file first, then of the same folder, then of the folder above (the paper's REPO, which
// puts the files of a folder one behind the other).
type repo struct {
	bound   int
	folders map[uint64][]int32 // hash of a path or folder -> seats
	paths   [][]uint64         // by seat
	places  [][]int32          // by seat: where in its lists it is
}

// enough is how many related documents make the folders above not worth asking.
const enough = 256

func newRepo(bound int) *repo { return &repo{bound: bound, folders: map[uint64][]int32{}} }

func (r *repo) add(_ *Index, seat int32, h *Hint) {
	for int(seat) >= len(r.paths) {
		r.paths, r.places = append(r.paths, nil), append(r.places, nil)
	}
	places := r.places[seat][:0]
	for _, f := range h.Path {
		places = append(places, int32(len(r.folders[f])))
		r.folders[f] = append(r.folders[f], seat)
	}
	r.paths[seat], r.places[seat] = h.Path, places
}

func (r *repo) remove(x *Index, seat int32, h *Hint) {
	for i, f := range h.Path {
		list, at := r.folders[f], r.places[seat][i]
		last := list[len(list)-1]
		list[at] = last
		if list = list[:len(list)-1]; len(list) == 0 {
			delete(r.folders, f)
		} else {
			r.folders[f] = list
		}
		for k, g := range r.paths[last] {
			if g == f {
				r.places[last][k] = at
			}
		}
	}
	r.paths[seat] = nil
	x.free = append(x.free, seat)
}

func (r *repo) score(x *Index, q question, h *Hint) (own int32) {
	left, found := r.bound, 0
	top := int32(len(h.Path)) + 1
	for i, f := range h.Path {
		list := r.folders[f]
		if len(list) > left {
			break
		}
		left -= len(list)
		for _, s := range list {
			if x.scores[s] == 0 && x.fits(q, s) {
				x.scores[s] = top - int32(i)
				x.touched = append(x.touched, s)
				found++
			}
		}
		if found >= enough {
			break
		}
	}
	return 1<<31 - 1
}
