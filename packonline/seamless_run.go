package packonline

// pass packs the pool. Bins with a piece that is nearly due go to the run, as far as they are no rows themselves, and
// then further ones until the run is not nearly due: the fullest first, and bins that are rows where there are no
// others. The remaining rows are emitted. If nothing may be kept, all under-full bins follow to the run in the order
// they were opened, else the fullest until at most keep pieces wait.
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

// join moves the pieces of a bin, unless they have left, to the end of the run, cuts off the row that this may fill,
// sets their lengths in the pool to 0, and returns their number.
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

// append puts a piece at the end of the run, which may fill a row and begin the next one.
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

// endRun closes a row with the run.
func (p *seamless) endRun(out *Rows) {
	for _, w := range p.run {
		out.add(Piece{w.doc, w.start, w.length}, p.age(w))
	}
	p.close(p.longest, p.used, out)
	p.run, p.used = p.run[:0], 0
	p.detail.runs++
}
