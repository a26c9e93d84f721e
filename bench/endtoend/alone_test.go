package main

import "testing"

// TestAlone_TokenizesEachDocumentOnce checks that every document is tokenized once, also if texts repeat.
func TestAlone_TokenizesEachDocumentOnce(t *testing.T) {
	speed, err := alone([][]byte{[]byte("one"), []byte("two words")}, 5, "gpt2")
	if err != nil || speed <= 0 {
		t.Errorf("%f bytes a second: %v", speed, err)
	}
	if _, err := alone(nil, 0, "no such tokenizer"); err == nil {
		t.Error("a tokenizer that there is not was loaded")
	}
}
