package loader

// demand is what the readers of one follower want, and what they may still ask for. The leader plans ahead of it and keeps what it
// names. It is a value, and speaks of steps, not of now: it may come from another machine, and late.
type demand struct {
	Wanted   uint64 // no reader has asked for this step or a later one
	Needed   uint64 // the first step that a reader may still ask rows of; everyStep without readers
	Furthest uint64 // the last step that a reader asks for next; meaningless without readers
}

// everyStep is behind all steps.
const everyStep = 1<<64 - 1

// waits reports whether a reader waits for a step that is not among so many.
func (d demand) waits(planned uint64) bool { return d.Needed != everyStep && d.Furthest >= planned }
