package corpus_test

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/snappy"

	"loaderd/internal/corpus"
	"loaderd/internal/tokenfiles"
)

var little = binary.LittleEndian

// shorts returns ids of two bytes.
func shorts(ids ...uint16) string {
	var b []byte
	for _, id := range ids {
		b = little.AppendUint16(b, id)
	}
	return string(b)
}

// ints returns ids in the encoding of documents.
func ints(ids ...uint32) string {
	var b []byte
	for _, id := range ids {
		b = little.AppendUint32(b, id)
	}
	return string(b)
}

// megatronIndex returns an index of documents with one sequence each, of ids of two bytes.
func megatronIndex(lengths ...int32) string {
	b := []byte(tokenfiles.MegatronMagic)
	b = append(little.AppendUint64(b, 1), 8)
	b = little.AppendUint64(b, uint64(len(lengths)))
	b = little.AppendUint64(b, uint64(len(lengths)+1))
	for _, n := range lengths {
		b = little.AppendUint32(b, uint32(n))
	}
	place := uint64(0)
	for _, n := range lengths {
		b = little.AppendUint64(b, place)
		place += 2 * uint64(n)
	}
	for i := range len(lengths) + 1 {
		b = little.AppendUint64(b, uint64(i))
	}
	return string(b)
}

func npyFile(descr, shape, data string) string {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape)
	return tokenfiles.NPYMagic + "\x01\x00" + string(little.AppendUint16(nil, uint16(len(header)))) + header + data
}

var end = uint32(9)

// Chats are not text, and the error names the command that publishes them.
func TestChats_ErrorNamesPublishCommand(t *testing.T) {
	for name, data := range map[string]string{
		"a.jsonl": `{"messages":[{"role":"user","content":"hi"}]}`, "a.json": `[{"conversations":[]}]`,
		"a.csv": "id,messages\n1,x\n", "a.arrow": streamOf(t, "messages", "x"),
	} {
		field := "messages"
		if name == "a.json" {
			field = "conversations"
		}
		path := filepath.Join(folder(t, map[string]string{name: data}), name)
		inputs, err := corpus.Open(t.Context(), []string{path}, nil, corpus.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range inputs[0].Documents(t.Context()) {
			if want := fmt.Sprintf("loaderd.documents(rows, messages=%q, chat=tokenizer)", field); err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		}
	}
}

// A legacy index is recognised by its magic number, and refers to the ids next to it.
func TestMegatronPairs_LegacyIndex(t *testing.T) {
	b := []byte("TNTIDX\x00\x00")
	for _, n := range []uint64{1, 8, 2, 2, 2, 3, 0, 1, 2, 0, 3, 5, 3, 2, 0, 1, 2} {
		b = little.AppendUint64(b, n)
	}
	dir := folder(t, map[string]string{"x.idx": string(b), "x.bin": shorts(1, 2, 9, 3, 9)})
	for _, name := range []string{"", "x", "x.idx", "x.bin"} {
		docs, _, err := read(t, []string{filepath.Join(dir, name)}, nil, corpus.Options{Tokens: true})
		if err != nil {
			t.Errorf("%q: %v", name, err)
		}
		want(t, name, docs, []string{"x.idx||" + ints(1, 2, 9), "x.idx||" + ints(3, 9)})
	}
}

func TestMegatronPairs_Read(t *testing.T) {
	bin := shorts(1, 2, 9, 3, 9)
	dir := folder(t, map[string]string{"a/x.idx": megatronIndex(3, 2), "a/x.bin": bin, "a/note.jsonl": `{"ids":[4]}`})
	tokens := corpus.Options{Tokens: true}
	documents := []string{"x.idx||" + ints(1, 2, 9), "x.idx||" + ints(3, 9)}
	for _, name := range []string{"a/x.idx", "a/x.bin", "a/x"} {
		docs, _, err := read(t, []string{filepath.Join(dir, name)}, nil, tokens)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want(t, name, docs, documents)
	}
	docs, skipped, err := read(t, []string{dir}, nil, tokens)
	if err != nil || len(skipped) > 0 {
		t.Errorf("folder: %v, left out %q", err, skipped)
	}
	want(t, "folder", docs, []string{"a/note.jsonl||" + ints(4), "a/x.idx||" + ints(1, 2, 9), "a/x.idx||" + ints(3, 9)})

	inputs, err := corpus.Open(t.Context(), []string{filepath.Join(dir, "a/x")}, nil, tokens)
	if err != nil || len(inputs) != 1 || inputs[0].Bytes != int64(len(bin)+len(megatronIndex(3, 2))) ||
		inputs[0].Format() != corpus.Megatron {
		t.Fatalf("%+v, %v", inputs, err)
	}
	for d, err := range inputs[0].Documents(t.Context()) {
		if err != nil || !strings.HasPrefix(d.Label, filepath.ToSlash(dir)+"/a/x.idx:") {
			t.Errorf("%q, %v", d.Label, err)
		}
	}
	if inputs[0].BytesRead() != inputs[0].Bytes {
		t.Errorf("read %d of %d bytes", inputs[0].BytesRead(), inputs[0].Bytes)
	}

	alone := folder(t, map[string]string{"y.idx": megatronIndex(1)})
	for what, c := range map[string]struct {
		path, want string
		o          corpus.Options
	}{
		"no tokenizer":   {filepath.Join(dir, "a/x.idx"), "--tokenizer", corpus.Options{}},
		"no ids":         {alone, "y.bin", tokens},
		"an id column":   {filepath.Join(dir, "a/x.idx"), "--id-column", corpus.Options{Tokens: true, IDField: "key"}},
		"no index there": {filepath.Join(dir, "a/note"), "no such file", tokens},
	} {
		if _, _, err := read(t, []string{c.path}, nil, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestTokenFiles_Read(t *testing.T) {
	uint16s, err := tokenfiles.TypeOf("uint16")
	if err != nil {
		t.Fatal(err)
	}
	raw := shorts(1, 2, 9, 3, 9, 4)
	llmc := string(little.AppendUint32(little.AppendUint32(little.AppendUint32(nil, 20240520), 1), 6)) +
		strings.Repeat("\x00", 1024-12) + raw
	dir := folder(t, map[string]string{"a.npy": npyFile("<u2", "6,", raw), "b.npy": raw, "c.bin": raw, "d.bin": llmc,
		"e.npy.gz": gzipped(t, npyFile("<u2", "6,", raw)), "f.npy": ""})
	at := func(name string) string { return filepath.Join(dir, name) }
	o := corpus.Options{Tokens: true, Boundaries: tokenfiles.Boundaries{End: &end}}
	headless := o
	headless.TokenType = uint16s
	for name, o := range map[string]corpus.Options{"a.npy": o, "b.npy": headless, "c.bin": headless, "d.bin": o,
		"e.npy.gz": headless} {
		docs, _, err := read(t, []string{at(name)}, nil, o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want(t, name, docs, []string{name + "||" + ints(1, 2, 9), name + "||" + ints(3, 9), name + "||" + ints(4)})
	}
	docs, _, err := read(t, []string{"-"}, strings.NewReader(npyFile("<u2", "6,", raw)), o)
	if err != nil {
		t.Errorf("standard input: %v", err)
	}
	want(t, "standard input", docs, []string{"-||" + ints(1, 2, 9), "-||" + ints(3, 9), "-||" + ints(4)})

	o.Vocabulary = 4
	docs, skipped, err := read(t, []string{at("a.npy")}, nil, o)
	if err != nil {
		t.Error(err)
	}
	want(t, "ids of the vocabulary", docs, nil)
	want(t, "others", skipped, []string{"a.npy:0 bad record", "a.npy:0 bad record", "a.npy:0 bad record"})

	for name, c := range map[string]struct {
		o    corpus.Options
		want string
	}{
		"a.npy": {corpus.Options{Tokens: true}, "--end-token"}, "b.npy": {o, "--token-type"}, "c.bin": {o, "--token-type"},
		"d.bin": {corpus.Options{}, "--tokenizer"},
		"f.npy": {o, "it is empty"},
	} {
		if _, _, err := read(t, []string{at(name)}, nil, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// The end token and the type of ids are part of the fingerprint.
func TestFingerprint_IncludesEndTokenAndType(t *testing.T) {
	dir := folder(t, map[string]string{"a.npy": npyFile("<u2", "1,", shorts(9))})
	other := uint32(8)
	var prints []string
	for _, cut := range []tokenfiles.Boundaries{{End: &end}, {Begin: &end}, {End: &other}} {
		inputs, err := corpus.Open(t.Context(), []string{dir}, nil, corpus.Options{Tokens: true, Boundaries: cut})
		if err != nil || len(inputs) != 1 {
			t.Fatalf("%v, %v", inputs, err)
		}
		prints = append(prints, inputs[0].Fingerprint)
	}
	if slices.Sort(prints); len(slices.Compact(prints)) != 3 {
		t.Errorf("fingerprints are %q", prints)
	}
}

// mdsShard returns a shard with columns of a text and a number.
func mdsShard(texts ...string) string {
	var samples []string
	for i, text := range texts {
		samples = append(samples, string(little.AppendUint64(nil, uint64(100+i))))
		samples[i] = string(little.AppendUint32(nil, uint32(len(text)))) + samples[i] + text
	}
	place := uint32(4 * (len(texts) + 2))
	b := little.AppendUint32(little.AppendUint32(nil, uint32(len(texts))), place)
	for _, s := range samples {
		place += uint32(len(s))
		b = little.AppendUint32(b, place)
	}
	return string(b) + strings.Join(samples, "")
}

// describedShard is mdsShard with a configuration that names its columns.
func describedShard(texts ...string) string {
	config :=
		`{"column_encodings":["int","str"],"column_names":["id","text"],"column_sizes":[8,null],"compression":"zstd","format":"mds","hashes":[],"version":2}`
	plain := mdsShard(texts...)
	at := 4 * (len(texts) + 2)
	b := []byte(plain[:4])
	for i := 4; i < at; i += 4 {
		b = little.AppendUint32(b, little.Uint32([]byte(plain[i:]))+uint32(len(config)))
	}
	return string(b) + config + plain[at:]
}

// Without an index, shards are read by their own headers, in the order of their names. A shard that also exists
// compressed is read once.
func TestMDS_WithoutIndex(t *testing.T) {
	one, two := describedShard("one", "two"), describedShard("three")
	for what, files := range map[string]map[string]string{
		"no index":       {"b.mds": two, "a.mds": one},
		"an empty index": {"b.mds": two, "a.mds": one, "index.json": ""},
		"compressed":     {"b.mds": two, "b.mds.zstd": zstandard(t, two), "a.mds.gz": gzipped(t, one)},
	} {
		dir := folder(t, files)
		docs, skipped, err := read(t, []string{dir}, nil, corpus.Options{IDField: "id"})
		if err != nil || len(skipped) > 0 {
			t.Errorf("%s: %v, left out %q", what, err, skipped)
		}
		for i := range docs {
			docs[i] = strings.Replace(docs[i], "a.mds.gz", "a.mds", 1)
		}
		want(t, what, docs, []string{"a.mds|100|one", "a.mds|101|two", "b.mds|100|three"})
	}
	docs, _, err := read(t, []string{"-"}, strings.NewReader(one), corpus.Options{Format: corpus.MDS})
	if err != nil || len(docs) != 2 {
		t.Errorf("a pipe: %q, %v", docs, err)
	}
	for what, c := range map[string]struct {
		data []byte
		want string
	}{
		"cut off":       {[]byte(one[:len(one)-1]), "the shard is cut off"},
		"another table": {[]byte(strings.Replace(one, `"text"`, `"body"`, 1)), `no column "text"; it has "body", "id"`},
		"damaged":       {[]byte(strings.Replace(one, `[8,null]`, `[8,null`+" ", 1)), "does not name its columns"},
	} {
		if _, _, err := read(t, []string{folder(t, map[string]string{"a.mds": string(c.data)})}, nil,
			corpus.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", what, err, c.want)
		}
	}
	docs, skipped, err := read(t, []string{folder(t, map[string]string{"image.mds": "MEDIA DESCRIPTOR\x00\x01"})}, nil,
		corpus.Options{})
	if err != nil || len(docs) > 0 || len(skipped) != 1 || !strings.Contains(skipped[0], "binary") {
		t.Errorf("another file of that ending: %q, %q, %v", docs, skipped, err)
	}
}

// Shards whose compression has no magic number are recognised by their names.
func TestMDS_CompressionWithoutMagic(t *testing.T) {
	shard := describedShard("one", "two")
	brotlied, snapped := packShard(t, "br", shard), packShard(t, "snappy", shard)
	docs, skipped, err := read(t, []string{folder(t, map[string]string{"a.mds.br": brotlied, "b.mds.snappy": snapped,
		"c.mds": shard, "c.mds.snappy": snapped, "d.MDS.BR": brotlied})}, nil, corpus.Options{})
	if err != nil || len(skipped) > 0 {
		t.Errorf("%v, left out %q", err, skipped)
	}
	want(t, "shards", docs, []string{"a.mds.br||one", "a.mds.br||two", "b.mds.snappy||one", "b.mds.snappy||two",
		"c.mds||one", "c.mds||two", "d.MDS.BR||one", "d.MDS.BR||two"})
	for name, c := range map[string]struct{ data, want string }{
		"cut off.mds.br":     {brotlied[:len(brotlied)/2], "br data is truncated"},
		"damaged.mds.snappy": {"\xff\xff\xff\xff\x0f\x00", "states that it decompresses to 4294967295"},
		"longer.mds.snappy":  {"\x01" + snapped, "has more than 33 bytes and states that it decompresses to 1"},
		"cut off.mds.snappy": {snapped[:len(snapped)/2], "snappy data is damaged"},
	} {
		path := filepath.Join(folder(t, map[string]string{name: c.data}), name)
		if strings.HasSuffix(name, ".snappy") { // which is decompressed only once, when it is read
			inputs, err := corpus.Open(t.Context(), []string{path}, nil, corpus.Options{})
			if err != nil || inputs[0].Format() != corpus.MDS {
				t.Errorf("%s: not an input of MDS: %v", name, err)
			}
		}
		if _, _, err := read(t, []string{path}, nil, corpus.Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// packShard compresses a shard.
func packShard(t *testing.T, codec, shard string) string {
	t.Helper()
	switch codec {
	case "gz":
		return gzipped(t, shard)
	case "zstd":
		return zstandard(t, shard)
	case "snappy":
		return string(snappy.Encode(nil, []byte(shard)))
	}
	var b bytes.Buffer
	w := brotli.NewWriter(&b)
	_, _ = w.Write([]byte(shard)) // into memory
	_ = w.Close()
	return b.String()
}

// mdsIndex returns an index of shards, compressed or not.
func mdsIndex(t *testing.T, shards ...map[string]any) string {
	t.Helper()
	for _, s := range shards {
		s["version"], s["format"] = 2, "mds"
		s["column_names"], s["column_encodings"], s["column_sizes"] = []string{"id", "text"}, []string{"int", "str"},
			[]any{8, nil}
	}
	b, err := json.Marshal(map[string]any{"version": 2, "shards": shards})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func mdsFile(name string, bytes int) map[string]any {
	return map[string]any{"basename": name, "bytes": bytes, "hashes": map[string]string{}}
}

func TestMDS_ReadsShardsInIndexOrder(t *testing.T) {
	shard := mdsShard("one", "two", "")
	// In the order of their names, the shards would be read in another order.
	files := map[string]string{"data/z.mds": shard, "data/readme.txt": "no part of it", "other.txt": "text"}
	shards := []map[string]any{{"samples": 3, "raw_data": mdsFile("z.mds", len(shard)), "compression": nil,
		"zip_data": nil}}
	wanted := []string{"other.txt||text", "data/z.mds||one", "data/z.mds||two", "data/z.mds||"}
	for _, codec := range []string{"zstd", "gz", "snappy", "br"} {
		packed := packShard(t, codec, shard)
		name := codec + ".mds." + codec
		files["data/"+name] = packed
		shards = append(shards, map[string]any{"samples": 3, "raw_data": mdsFile(codec+".mds", len(shard)),
			"compression": codec + ":3", "zip_data": mdsFile(name, len(packed))})
		for _, text := range []string{"one", "two", ""} {
			wanted = append(wanted, "data/"+name+"||"+text)
		}
	}
	files["data/index.json"] = mdsIndex(t, shards...)
	dir := folder(t, files)
	docs, skipped, err := read(t, []string{dir}, nil, corpus.Options{})
	if err != nil || len(skipped) > 0 {
		t.Errorf("%v, left out %q", err, skipped)
	}
	want(t, "folder", docs, wanted)
	docs, _, err = read(t, []string{filepath.Join(dir, "data/index.json")}, nil, corpus.Options{IDField: "id"})
	if err != nil || len(docs) != 15 || docs[1] != "z.mds|101|two" {
		t.Errorf("by its index: %q, %v", docs, err)
	}

	for what, c := range map[string]struct {
		files map[string]string
		o     corpus.Options
		want  string
	}{
		"no column":       {files, corpus.Options{TextField: "content"}, `no column "content"; it has "id", "text"`},
		"no text":         {files, corpus.Options{TextField: "id"}, `column "id" is int`},
		"no tokens":       {files, corpus.Options{TextField: "text", Tokens: true}, `column "text" is str: want token ids`},
		"a missing shard": {map[string]string{"index.json": files["data/index.json"]}, corpus.Options{}, "z.mds"},
		"a damaged shard": {map[string]string{"index.json": mdsIndex(t, shards[0]), "z.mds": shard[:20]}, corpus.Options{},
			"z.mds: the shard is cut off"},
		"no index": {map[string]string{"z.mds": shard}, corpus.Options{},
			"z.mds: its header does not name its columns, and there is no index.json"},
	} {
		if _, _, err := read(t, []string{folder(t, c.files)}, nil, c.o); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}

func TestSavedDataset_ReadsListedFiles(t *testing.T) {
	state :=
		`{"_data_files": [{"filename": "data-2.arrow"}, {"filename": "data-1.arrow"}], "_fingerprint": "x", "_split": "train"}`
	files := map[string]string{
		"train/state.json": state, "train/dataset_info.json": `{"features": {}}`,
		"train/data-1.arrow": string(arrowStream(t, 1)), "train/data-2.arrow": string(arrowStream(t, 2)),
		"train/old.arrow": string(arrowStream(t, 3)),
		"test/state.json": `{"_data_files": [{"filename": "data-1.arrow"}]}`, "test/data-1.arrow": string(arrowStream(t, 1)),
		"dataset_dict.json": `{"splits": ["train", "test"]}`,
	}
	whole := folder(t, files)
	docs, skipped, err := read(t, []string{filepath.Join(whole, "train")}, nil, corpus.Options{IDField: "id"})
	if err != nil || len(skipped) > 0 {
		t.Errorf("%v, left out %q", err, skipped)
	}
	want(t, "one part", docs, []string{"folder/0|1000|row 0 é", "folder/1|1001|row 1 é", "folder/0|1000|row 0 é"})
	for split, n := range map[string]int{"test": 1, "train": 3, "all": 4} {
		docs, _, err := read(t, []string{whole}, nil, corpus.Options{Split: split})
		if err != nil || len(docs) != n {
			t.Errorf("%s: %q, %v", split, docs, err)
		}
	}
	inputs, err := corpus.Open(t.Context(), []string{whole}, nil, corpus.Options{Split: "all"})
	if err != nil || len(inputs) != 3 || inputs[0].Split != "train" || inputs[2].Split != "test" {
		t.Errorf("%+v, %v", inputs, err)
	}
	for what, c := range map[string]struct {
		path, split string
		docs        int
		want        string
	}{
		"the part itself":  {"train", "train", 3, ""},
		"all of the part":  {"train", "all", 3, ""},
		"another part":     {"train", "test", 0, `has no part "test"; it has "train"`},
		"part not named":   {"test", "test", 0, "test/data-1.arrow has no splits"},
		"a file":           {"train/data-1.arrow", "train", 0, "train/data-1.arrow has no splits"},
		"a file, all":      {"train/data-1.arrow", "all", 1, ""},
		"standard input":   {"-", "train", 0, "- has no splits"},
		"a part elsewhere": {"", "val", 0, `has no part "val"; it has "test", "train"`},
	} {
		path := filepath.Join(whole, c.path)
		if c.path == "-" {
			path = "-"
		}
		docs, _, err := read(t, []string{path}, nil, corpus.Options{Split: c.split})
		if len(docs) != c.docs || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v, want %q", what, docs, err, c.want)
		}
	}
	mixed := folder(t, map[string]string{"a/state.json": state, "a/data-1.arrow": files["train/data-1.arrow"],
		"a/data-2.arrow": files["train/data-2.arrow"], "b.jsonl": `{"text":"x"}`})
	if docs, _, err := read(t, []string{mixed}, nil, corpus.Options{Split: "train"}); err == nil ||
		!strings.Contains(err.Error(), "b.jsonl has no splits") {
		t.Errorf("a file beside a dataset: %q, %v", docs, err)
	}
	for what, c := range map[string]struct{ name, content, split, want string }{
		"which part":   {"", "", "", `has the parts "test", "train": select one or all with --split`},
		"no such part": {"", "", "val", `has no part "val"`},
		"a missing file": {"train/state.json", `{"_data_files": [{"filename": "data-3.arrow"}]}`, "train",
			"data-3.arrow"},
		"a file elsewhere": {"train/state.json", `{"_data_files": [{"filename": "../test/data-1.arrow"}]}`, "train",
			"not in the folder"},
		"a part elsewhere":   {"dataset_dict.json", `{"splits": [".."]}`, "", "not in the folder"},
		"no parts":           {"dataset_dict.json", `{}`, "", "does not list the dataset's parts"},
		"a part without any": {"dataset_dict.json", `{"splits": ["other"]}`, "", `no files of the part "other"`},
		"rows of others": {"train/state.json",
			`{"_data_files": [{"filename": "data-1.arrow"}], "_indices_data_files": [{}]}`, "train", "selection"},
	} {
		changed := map[string]string{}
		maps.Copy(changed, files)
		if c.name != "" {
			changed[c.name] = c.content
		}
		if _, _, err := read(t, []string{folder(t, changed)}, nil, corpus.Options{Split: c.split}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", what, err, c.want)
		}
	}
}

// Names in a manifest cannot lead out of the folder through symbolic links, except to the blobs of the hub's cache.
func TestSavedDataset_RefusesLinksOutOfFolder(t *testing.T) {
	state := `{"_data_files": [{"filename": "data.arrow"}]}`
	batch := string(arrowStream(t, 1))
	dir := folder(t, map[string]string{
		"elsewhere/data.arrow": batch, "elsewhere/state.json": state, "file/state.json": state,
		"part/dataset_dict.json": `{"splits": ["train"]}`,
		"inside/state.json":      state, "inside/blob": batch, "shards/index.json": `{"version": 2, "shards": [{"version": 2, "format": "mds", "column_names": ["text"],
			"column_encodings": ["str"], "column_sizes": [null], "compression": null, "hashes": [], "samples": 1, "size_limit": 1, "zip_data": null,
			"raw_data": {"basename": "shard.mds", "bytes": 24, "hashes": {}}}]}`, "elsewhere/shard.mds": "secret",
		"datasets--a--b/blobs/0a": batch, "datasets--a--b/snapshots/rev/state.json": state,
	})
	link(t, dir, map[string]string{"file/data.arrow": "../elsewhere/data.arrow", "part/train": "../elsewhere",
		"inside/data.arrow": "blob",
		"shards/shard.mds":  "../elsewhere/shard.mds", "datasets--a--b/snapshots/rev/data.arrow": "../../blobs/0a"})
	for name, want := range map[string]string{"file": "escapes", "part": "escapes", "shards": "escapes", "inside": "",
		"datasets--a--b/snapshots/rev": ""} {
		docs, _, err := read(t, []string{filepath.Join(dir, name)}, nil, corpus.Options{})
		if want == "" && (err != nil || len(docs) == 0) || want != "" &&
			(err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %q, %v, want %q", name, docs, err, want)
		}
	}
}

func warcRecord(kind, contentType, body string) string {
	return fmt.Sprintf("WARC/1.0\r\nWARC-Type: %s\r\nWARC-Target-URI: http://%s\r\nWARC-Record-ID: "+
		"<urn:%s>\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n",
		kind, kind, kind, contentType, len(body), body)
}

func httpResponse(contentType, body string) string {
	return warcRecord("response", "application/http; msgtype=response", "HTTP/1.1 200 OK\r\nContent-Type: "+contentType+
		"\r\n\r\n"+body)
}

func TestWARC_Records(t *testing.T) {
	records := []string{
		warcRecord("warcinfo", "application/warc-fields", "software: x"), warcRecord("conversion", "text/plain", "converted"),
		warcRecord("request", "application/http", "GET"),
		httpResponse("text/html; charset=utf-8", "<p>"), httpResponse("text/plain", "plain é"),
		httpResponse("image/png", "x"), httpResponse("text/plain; charset=latin1", "\xe9"),
		warcRecord("resource", "text/markdown", "# notes"), warcRecord("response", "text/dns", "dns"),
		httpResponse("text/plain", strings.Repeat("x", 100)),
	}
	packed := ""
	for _, r := range records {
		packed += gzipped(t, r)
	}
	dir := folder(t, map[string]string{"a.warc.gz": packed, "b.wet": records[1],
		"cut.warc": records[1][:len(records[1])-10]})
	docs, skipped, err := read(t, []string{filepath.Join(dir, "a.warc.gz")}, nil,
		corpus.Options{IDField: "warc-record-id", MaxDocument: 50})
	if err != nil {
		t.Error(err)
	}
	want(t, "documents", docs, []string{"http://conversion|<urn:conversion>|converted",
		"http://response|<urn:response>|plain é", "http://resource|<urn:resource>|# notes"})
	want(t, "left out", skipped, []string{"a.warc.gz:4 html", "a.warc.gz:6 media", "a.warc.gz:7 encoding",
		"a.warc.gz:9 media", "a.warc.gz:10 too large"})
	if docs, _, err := read(t, []string{filepath.Join(dir, "b.wet")}, nil, corpus.Options{}); err != nil ||
		len(docs) != 1 {
		t.Errorf("%q, %v", docs, err)
	}
	if docs, _, err := read(t, []string{filepath.Join(dir, "cut.warc")}, nil, corpus.Options{}); err == nil ||
		!strings.Contains(err.Error(), "record 1") || len(docs) > 0 {
		t.Errorf("a part of a document counts as one: %q, %v", docs, err)
	}
	if _, _, err := read(t, []string{filepath.Join(dir, "b.wet")}, nil, corpus.Options{Tokens: true}); err == nil ||
		!strings.Contains(err.Error(), "not from a web archive") {
		t.Error(err)
	}
}

// tarOf returns a tar of names and contents, in order.
func tarOf(tb testing.TB, files ...string) string {
	tb.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Size: int64(len(files[i+1])), Mode: 0o644,
			Typeflag: tar.TypeReg}); err != nil {
			tb.Fatal(err)
		}
		if _, err := w.Write([]byte(files[i+1])); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

func TestTar_Samples(t *testing.T) {
	archive := tarOf(t,
		"a/0.txt", "zero", "a/0.cls", "7", "a/0.json", `{"id": "first", "lang": "en"}`,
		"a/1.json", `{"text": "one", "url": "http://one"}`, "a/1.jpg", "\xff\xd8",
		"a/2.jpg", "\xff\xd8", "a/3.json", `{"words": "x"}`, "a/.hidden", "x", "plain", "no sample",
		"a/4.seg.txt", "x", "a/4.txt", strings.Repeat("x", 100), "a/5.TXT", "five", "a/6.txt", "\xff", "a/7.json", "nonsense",
	)
	dir := folder(t, map[string]string{"x.tar": archive, "y.tar.gz": gzipped(t, archive),
		"twice.tar": tarOf(t, "0.txt", "a", "0.txt", "b"), "cut.tar": archive[:700]})
	for _, name := range []string{"x.tar", "y.tar.gz"} {
		docs, skipped, err := read(t, []string{filepath.Join(dir, name)}, nil, corpus.Options{MaxDocument: 50})
		if err != nil {
			t.Error(err)
		}
		want(t, "documents", docs, []string{name + "/a/0||zero", "http://one||one", name + "/a/5||five"})
		want(t, "left out", skipped, []string{name + ":3 no text", name + ":4 no text", name + ":5 too large",
			name + ":7 bad record", name + ":8 bad record"})
	}
	docs, skipped, err := read(t, []string{filepath.Join(dir, "x.tar")}, nil, corpus.Options{IDField: "id"})
	if err != nil || len(skipped) != 7 {
		t.Errorf("%v, left out %q", err, skipped)
	}
	want(t, "with ids", docs, []string{"x.tar/a/0|first|zero"})
	for name, part := range map[string]string{"twice.tar": `sample "0" contains it twice`,
		"cut.tar": "not a readable tar"} {
		if _, _, err := read(t, []string{filepath.Join(dir, name)}, nil, corpus.Options{}); err == nil ||
			!strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want %q", name, err, part)
		}
	}
	ids := folder(t, map[string]string{"x.tar": tarOf(t, "0.npy", npyFile("<u2", "3,", shorts(1, 2, 3)), "1.json",
		`{"ids": [4, 5]}`, "2.npy", "nonsense", "3.txt", "text")})
	docs, skipped, err = read(t, []string{ids}, nil, corpus.Options{Tokens: true})
	if err != nil {
		t.Error(err)
	}
	want(t, "tokens", docs, []string{"x.tar/0||" + ints(1, 2, 3), "x.tar/1||" + ints(4, 5)})
	want(t, "no tokens", skipped, []string{"x.tar:3 bad record", "x.tar:4 no text"})
}

func FuzzTar(f *testing.F) {
	f.Add([]byte(tarOf(f, "a.txt", "text", "a.json", `{"id": 1}`, "b.json", `{"text": "x"}`)), false)
	f.Add([]byte(tarOf(f, "a.txt", "text")+strings.Repeat("\x00", 512)+tarOf(f, "a.txt", "text")), false)
	f.Add([]byte(tarOf(f, "a.npy", npyFile("<u2", "1,", shorts(9)), "b.json", `{"ids": [1]}`)), true)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, tokens bool) {
		_, _, _ = readFile(t, dir, "a.tar", data, corpus.Options{Format: corpus.Tar, Tokens: tokens, MaxDocument: 1 << 10})
	})
}

func FuzzWARC(f *testing.F) {
	f.Add([]byte(warcRecord("conversion", "text/plain", "x") + httpResponse("text/plain", "y")))
	f.Add([]byte(gzipped(f, warcRecord("conversion", "text/plain", "x")) + "x" +
		gzipped(f, warcRecord("conversion", "text/plain", "y"))))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _, _ = readFile(t, dir, "a.warc", data, corpus.Options{Format: corpus.WARC, MaxDocument: 1 << 10})
	})
}

func FuzzManifests(f *testing.F) {
	f.Add([]byte(`{"_data_files": [{"filename": "x.arrow"}]}`), []byte(`{"splits": ["a"]}`),
		[]byte(`{"version": 2, "shards": [{"column_encodings": ["str"]}]}`))
	dirs := map[string]string{}
	for _, name := range []string{"state.json", "dataset_dict.json", "index.json"} {
		dirs[name] = f.TempDir()
	}
	f.Fuzz(func(t *testing.T, state, parts, index []byte) {
		for name, data := range map[string][]byte{"state.json": state, "dataset_dict.json": parts, "index.json": index} {
			if err := os.WriteFile(filepath.Join(dirs[name], name), data, 0o644); err != nil {
				t.Fatal(err)
			}
			_, _, _ = read(t, []string{dirs[name]}, nil, corpus.Options{}) // only checks that nothing panics
		}
	})
}
