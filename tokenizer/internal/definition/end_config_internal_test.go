package definition

import "testing"

func FuzzEndConfig(f *testing.F) {
	for _, text := range []string{`{"eos_token": "<eos>"}`, `{"eos_token": {"content": "</s>"}}`,
		`{"eos_token_id": [1, 106]}`, `{"eos_token_id": null}`, `{`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if end, err := tokenizerConfigEnd(text); err == nil && end.ID != -1 {
			t.Errorf("tokenizer_config.json names id %d", end.ID)
		}
		if end, err := generationConfigEnd(text); err == nil && end.Content != "" {
			t.Errorf("generation_config.json names %q", end.Content)
		}
	})
}
