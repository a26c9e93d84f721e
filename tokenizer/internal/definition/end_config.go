package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// EndConfig is the token at the end of a text that a configuration file names.
type EndConfig struct {
	Content string // "": the file names an id
	ID      int32
	Source  string // the file; "": no file names a token
}

// maxConfigBytes bounds a configuration file. Published ones have less than 1 MiB.
const maxConfigBytes = 64 << 20

// readEndConfig reads the token at the end of a text from the files of Hugging Face transformers in the folder of a
// tokenizer.json: tokenizer_config.json, or else generation_config.json. Missing files name no token.
func readEndConfig(folder string) (EndConfig, error) {
	for _, c := range []struct {
		file string
		read func([]byte) (EndConfig, error)
	}{{"tokenizer_config.json", tokenizerConfigEnd}, {"generation_config.json", generationConfigEnd}} {
		path := filepath.Join(folder, c.file)
		text, err := readBounded(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var end EndConfig
		if err == nil {
			end, err = c.read(text)
		}
		if err != nil {
			return end, fmt.Errorf("read %s: %w", path, err)
		}
		if end.Source = c.file; end.Content != "" || end.ID >= 0 {
			return end, nil
		}
	}
	return EndConfig{}, nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	return readAtMost(f, maxConfigBytes)
}

// readAtMost reads everything. It fails if that is more than limit bytes.
func readAtMost(in io.Reader, limit int) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(in, int64(limit)+1))
	if err == nil && len(text) > limit {
		err = fmt.Errorf("larger than %d bytes", limit)
	}
	return text, err
}

// tokenizerConfigEnd reads "eos_token": a token's text, or an object with its "content". An ID of -1 without
// Content means none.
func tokenizerConfigEnd(text []byte) (end EndConfig, err error) {
	var c struct {
		EOS json.RawMessage `json:"eos_token"`
	}
	end.ID = -1
	if err := json.Unmarshal(text, &c); err != nil || len(c.EOS) == 0 || string(c.EOS) == "null" {
		return end, err
	}
	if c.EOS[0] != '{' {
		err = json.Unmarshal(c.EOS, &end.Content)
	} else {
		var t struct {
			Content string `json:"content"`
		}
		err = json.Unmarshal(c.EOS, &t)
		end.Content = t.Content
	}
	if err != nil {
		err = fmt.Errorf("eos_token: %w", err)
	}
	return end, err
}

// generationConfigEnd reads "eos_token_id": an id, or a list. The first id of a list ends a text, others a message of
// a chat. An ID of -1 means none.
func generationConfigEnd(text []byte) (end EndConfig, err error) {
	var c struct {
		EOS json.RawMessage `json:"eos_token_id"`
	}
	end.ID = -1
	if err := json.Unmarshal(text, &c); err != nil || len(c.EOS) == 0 || string(c.EOS) == "null" {
		return end, err
	}
	ids := make([]int32, 1)
	if c.EOS[0] == '[' {
		err = json.Unmarshal(c.EOS, &ids)
	} else {
		err = json.Unmarshal(c.EOS, &ids[0])
	}
	if err != nil {
		return end, fmt.Errorf("eos_token_id: %w", err)
	}
	if len(ids) > 0 {
		end.ID = ids[0]
	}
	return end, nil
}
