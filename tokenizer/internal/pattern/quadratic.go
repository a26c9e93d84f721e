package pattern

// isQuadratic reports whether finding all matches may take time quadratic in the length of the text. That is possible
// if the automaton can read any number of characters without accepting before it must go back. It is not if matches
// that start among such characters match all of them, like the \s+ after \s*\n: then each is read at most a few times.
func (p *Pattern) isQuadratic() bool {
	width := p.kinds + 1
	for _, circle := range p.findCycles() {
		in := make([]bool, len(p.step)/width)
		for _, s := range circle {
			in[s] = true
		}
		var kinds []int // of characters in the cycle
		for kind := range p.kinds {
			for _, s := range circle {
				if entry := p.step[s*width+kind]; entry%2 == 0 && in[entry/2] {
					kinds = append(kinds, kind)
					break
				}
			}
		}
		if !p.acceptsEach(kinds) {
			return true
		}
	}
	return false
}

// acceptsEach reports whether a match that starts with characters of these kinds accepts before each further one.
func (p *Pattern) acceptsEach(kinds []int) bool {
	width := p.kinds + 1
	seen := make([]bool, len(p.step)/width)
	var list []int
	reach := func(s int) {
		if !seen[s] {
			seen[s] = true
			list = append(list, s)
		}
	}
	for _, kind := range kinds {
		reach(int(p.step[width+kind] / 2))
	}
	for k := 0; k < len(list); k++ {
		for _, kind := range kinds {
			entry := p.step[list[k]*width+kind]
			if entry%2 == 0 {
				return false
			}
			if entry/2 != 0 {
				reach(int(entry / 2))
			}
		}
	}
	return true
}

// findCycles returns the strongly connected components of the automaton without the accepting steps (Tarjan's
// algorithm).
func (p *Pattern) findCycles() [][]int {
	width := p.kinds + 1
	states := len(p.step) / width
	number, low := make([]int, states), make([]int, states)
	open := make([]bool, states)
	var stack []int
	var found [][]int
	count := 0
	var visit func(s int)
	visit = func(s int) {
		count++
		number[s], low[s] = count, count
		stack, open[s] = append(stack, s), true
		loop := false
		for _, entry := range p.step[s*width : s*width+p.kinds] {
			to := int(entry / 2)
			switch {
			case entry%2 == 1 || to == 0:
			case number[to] == 0:
				visit(to)
				low[s] = min(low[s], low[to])
			case open[to]:
				low[s] = min(low[s], number[to])
				loop = loop || to == s
			}
		}
		if low[s] != number[s] {
			return
		}
		at := len(stack) - 1
		for ; stack[at] != s; at-- {
			open[stack[at]] = false
		}
		open[s] = false
		if part := append([]int(nil), stack[at:]...); loop || len(part) > 1 {
			found = append(found, part)
		}
		stack = stack[:at]
	}
	for s := 1; s < states; s++ {
		if number[s] == 0 {
			visit(s)
		}
	}
	return found
}
