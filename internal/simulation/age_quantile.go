package simulation

// AgeQuantile returns the smallest age that at least a share q of the documents does not exceed, 0 without documents.
func (r *Result) AgeQuantile(q float64) uint32 {
	var documents int64
	for _, n := range r.ages {
		documents += n
	}
	left := max(q*float64(documents), 1)
	for age, n := range r.ages {
		if left -= float64(n); left <= 0 {
			return uint32(age)
		}
	}
	return r.AgeMax
}
