package packonline

// packPool packs the pool. Bins with a piece that is nearly due are appended to the run unless they are rows
// themselves. Further bins follow until the run is not nearly due: the fullest first, and bins that are rows only if no
// others are left. The remaining rows are emitted. If keep is 0, all under-full bins are appended to the run in the
// order of opening. Otherwise the fullest are appended until at most keep pieces are buffered.
func (p *seamless) packPool(keep int, out *Rows) {
	early := p.maxAge / ageShare
	p.fillBins(keep, early)
	if keep == 0 {
		out.grow(len(p.pool)+len(p.run), len(p.bins.all)+1)
	}
	nearlyDue := func() bool { return len(p.run) > 0 && p.isDue(p.oldest, early) }
	fullest := p.bins.fullestBin(p.bins.capacity - p.longest + 1)
	all := p.bins.all
	left := len(p.pool)
	for i := range all {
		if b := &all[i]; b.used < p.longest && keep > 0 && p.isDue(p.pool[b.oldest], early) {
			left -= p.addBinToRun(b, out)
		}
	}
	for b := fullest; b != nil && nearlyDue(); b = p.bins.nextFullest(b) {
		left -= p.addBinToRun(b, out)
	}
	for i := len(all) - 1; i >= 0 && nearlyDue(); i-- {
		left -= p.addBinToRun(&all[i], out)
	}
	for i := range all {
		if b := &all[i]; b.used >= p.longest && p.isPending(b) {
			left -= p.emit(b, out)
		}
	}
	for i := 0; i < len(all) && keep == 0; i++ {
		left -= p.addBinToRun(&all[i], out)
	}
	for b := fullest; b != nil && left+len(p.run) > keep; b = p.bins.nextFullest(b) {
		left -= p.addBinToRun(b, out)
	}
	if left+len(p.run) > keep || nearlyDue() {
		p.emitRun(out)
	}
	p.compact()
}

// addBinToRun moves the pieces of a bin that is still in the pool to the end of the run, and emits the row that this
// may fill. It sets the pieces' lengths in the pool to 0 and returns their number.
func (p *seamless) addBinToRun(b *bin, out *Rows) (pieces int) {
	if !p.isPending(b) {
		return 0
	}
	for r := b.first; r != none; r = p.bins.nextRank[r] {
		w := &p.pool[p.bins.order[r]]
		p.addToRun(*w, out)
		w.length = 0
		pieces++
	}
	return pieces
}

// addToRun adds a piece to the end of the run, which may fill a row and begin the next one.
func (p *seamless) addToRun(w bufferedPiece, out *Rows) {
	space := p.longest - p.used
	if w.length > space {
		if w.start == 0 {
			p.counts.Truncated++
		}
		rest := w
		rest.start, rest.length = w.start+space, w.length-space
		w.length = space
		p.extendRun(w)
		p.emitRun(out)
		p.extendRun(rest)
		return
	}
	p.extendRun(w)
	if p.used == p.longest {
		p.emitRun(out)
	}
}

func (p *seamless) extendRun(w bufferedPiece) {
	if len(p.run) == 0 || w.arrived < p.oldest.arrived {
		p.oldest = w
	}
	p.run = append(p.run, w)
	p.used += w.length
}

// emitRun emits the run as a row.
func (p *seamless) emitRun(out *Rows) {
	for _, w := range p.run {
		out.add(Piece{w.doc, w.start, w.length}, p.age(w))
	}
	p.closeRow(p.longest, p.used, out)
	p.run, p.used = p.run[:0], 0
	p.detail.runRows++
}
