package tokenizer

// readNormalizer reads what is done to the text between added tokens, in order.
func (d *definition) readNormalizer(n map[string]any) error {
	if n == nil {
		return nil
	}
	switch n["type"] {
	case "Sequence":
		list, ok := n["normalizers"].([]any)
		if !ok {
			return refuse("normalizer", n)
		}
		for _, x := range list {
			one, ok := x.(map[string]any)
			if !ok {
				return refuse("normalizer", n)
			}
			if err := d.readNormalizer(one); err != nil {
				return err
			}
		}
		return nil
	case "NFC", "NFKC":
		d.normalize = append(d.normalize, step{form: n["type"].(string)})
		return nil
	case "Prepend":
		text, ok := n["prepend"].(string)
		if !ok || text == "" { // nothing before a text doubles its first character in the reference
			return refuse("normalizer", n)
		}
		d.normalize = append(d.normalize, step{form: "Prepend", to: []byte(text)})
		return nil
	case "Replace":
		pattern, _ := n["pattern"].(map[string]any)
		from, okFrom := pattern["String"].(string)
		to, okTo := n["content"].(string)
		if !okFrom || !okTo || len(pattern) != 1 || from == "" {
			return refuse("normalizer", n)
		}
		d.normalize = append(d.normalize, step{form: "Replace", from: []byte(from), to: []byte(to)})
		return nil
	}
	return refuse("normalizer", n)
}
