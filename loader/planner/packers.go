package planner

import (
	"iter"

	"loaderd/packonline"
)

// packerSet are the packers of a planner: first the packer of the run, then those of sources with their own packing.
type packerSet []packerState

// pending returns the sum of what all packers buffer.
func (k packerSet) pending() packonline.Pending {
	all := k[0].packer.Pending()
	for i := range k[1:] {
		one := k[1+i].packer.Pending()
		if one.HasPieces() && (!all.HasPieces() || one.Oldest < all.Oldest) {
			all.Oldest = one.Oldest
		}
		all.Pieces += one.Pieces
		all.Held.Rows += one.Held.Rows
		all.Held.Pieces += one.Held.Pieces
		all.Tokens += one.Tokens
	}
	return all
}

// counts returns the totals of all packers.
func (k packerSet) counts() packonline.Counts {
	all := k[0].packer.Counts()
	for i := range k[1:] {
		all = all.Plus(k[1+i].packer.Counts())
	}
	return all
}

// detail returns the counts that are specific to the packing methods, or nil if they have none.
func (k packerSet) detail() map[string]int64 {
	var out map[string]int64
	for i := range k {
		d, ok := k[i].packer.(packonline.DetailedPacker)
		if !ok {
			continue
		}
		if out == nil {
			out = map[string]int64{}
		}
		for name, n := range d.Detail() {
			out[name] += n
		}
	}
	return out
}

// rowBuilders visits the lines of all packers.
func (k packerSet) rowBuilders() iter.Seq[*rowBuilder] {
	return func(yield func(*rowBuilder) bool) {
		for i := range k {
			for n := range k[i].rowBuilders {
				if !yield(&k[i].rowBuilders[n]) {
					return
				}
			}
		}
	}
}

// rowBuilderOf returns the line of an atom, and its packer.
func (k packerSet) rowBuilderOf(a *atom) (*rowBuilder, *packerState) {
	x := &k[a.packerIndex]
	return &x.rowBuilders[a.bucket], x
}
