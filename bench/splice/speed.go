package main

import (
	"encoding/json"
	"io"
)

// speed is the number of documents that a variant packs per second of processor time.
type speed struct {
	Variant   string  `json:"variant"`
	Documents float64 `json:"documents_per_second"`
}

// speeds packs the same documents with the default method and splice alternately, and writes the best of three
// speeds.
func speeds(w io.Writer, folders []string, s settings) error {
	c, err := read(folders, s)
	if err != nil {
		return err
	}
	if err := c.hint("bm25"); err != nil {
		return err
	}
	measured := []speed{{Variant: "bucket"}, {Variant: "splice"}}
	for range 3 {
		for i := range measured {
			config := base(s.length, s.pools[0])
			for _, v := range variants {
				if v.name == measured[i].Variant {
					v.change(&config)
				}
			}
			r, err := c.pack(config)
			if err != nil {
				return err
			}
			measured[i].Documents = max(measured[i].Documents, r.documents)
		}
	}
	return json.NewEncoder(w).Encode(measured)
}
