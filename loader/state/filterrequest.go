package state

// FilterRequest requests a change of a filter.
type FilterRequest struct {
	Source string // name of the source whose filter is replaced; empty for that of all documents
	Where  string // the new expression; empty for none
	By     string // identity of the requester; may be empty
	DryRun bool   // validates the change without recording it
}
