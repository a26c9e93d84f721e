package packonline

// pass packs the pool. Bins with a piece that is nearly due are appended to the run unless they are rows themselves.
// Further bins follow until the run is not nearly due: the fullest first, and bins that are rows only if no others
// are left. The remaining rows are emitted. If keep is 0, all under-full bins are appended to the run in the order of
// opening. Otherwise the fullest are appended until at most keep pieces are buffered.
func (p *seamless) pass(keep int, out *Rows) {
	early := p.maxAge / ageShare
	p.pack(keep, early)
	if keep == 0 {
		out.grow(len(p.pool)+len(p.run), len(p.bins.all)+1)
	}
	nearlyDue := func() bool { return len(p.run) > 0 && p.due(p.oldest, early) }
	fullest := p.bins.fullest(p.bins.capacity - p.longest + 1)
	all := p.bins.all
	left := len(p.pool)
	for i := range all {
		if b := &all[i]; b.used < p.longest && keep > 0 && p.due(p.pool[b.oldest], early) {
			left -= p.join(b, out)
		}
	}
	for b := fullest; b != nil && nearlyDue(); b = p.bins.next(b) {
		left -= p.join(b, out)
	}
	for i := len(all) - 1; i >= 0 && nearlyDue(); i-- {
		left -= p.join(&all[i], out)
	}
	for i := range all {
		if b := &all[i]; b.used >= p.longest && p.waits(b) {
			left -= p.emit(b, out)
		}
	}
	for i := 0; i < len(all) && keep == 0; i++ {
		left -= p.join(&all[i], out)
	}
	for b := fullest; b != nil && left+len(p.run) > keep; b = p.bins.next(b) {
		left -= p.join(b, out)
	}
	if left+len(p.run) > keep || nearlyDue() {
		p.endRun(out)
	}
	p.compact()
}

// join moves the pieces of a bin that is still in the pool to the end of the run, and emits the row that this may
// fill. It sets the pieces' lengths in the pool to 0 and returns their number.
func (p *seamless) join(b *bin, out *Rows) (pieces int) {
	if !p.waits(b) {
		return 0
	}
	for r := b.first; r != none; r = p.bins.link[r] {
		w := &p.pool[p.bins.order[r]]
		p.append(*w, out)
		w.length = 0
		pieces++
	}
	return pieces
}

// append adds a piece to the end of the run, which may fill a row and begin the next one.
func (p *seamless) append(w waiting, out *Rows) {
	space := p.longest - p.used
	if w.length > space {
		if w.start == 0 {
			p.counts.Truncated++
		}
		rest := w
		rest.start, rest.length = w.start+space, w.length-space
		w.length = space
		p.extend(w)
		p.endRun(out)
		p.extend(rest)
		return
	}
	p.extend(w)
	if p.used == p.longest {
		p.endRun(out)
	}
}

func (p *seamless) extend(w waiting) {
	if len(p.run) == 0 || w.arrived < p.oldest.arrived {
		p.oldest = w
	}
	p.run = append(p.run, w)
	p.used += w.length
}

// endRun emits the run as a row.
func (p *seamless) endRun(out *Rows) {
	for _, w := range p.run {
		out.add(Piece{w.doc, w.start, w.length}, p.age(w))
	}
	p.close(p.longest, p.used, out)
	p.run, p.used = p.run[:0], 0
	p.detail.runs++
}
