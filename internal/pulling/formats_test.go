package pulling_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/natstest"
	"loaderd/internal/objecttest"
	"loaderd/internal/pulling"
	"loaderd/stream"
	"loaderd/stream/lease"
	"loaderd/stream/pullrecord"
)

// indexEntry returns the entry of a shard in an index.
func indexEntry(name string, bytes, samples int) map[string]any {
	return map[string]any{"version": 2, "format": "mds", "samples": samples, "zip_data": nil,
		"column_names": []string{"text"}, "column_encodings": []string{"str"}, "column_sizes": []any{nil},
		"raw_data": map[string]any{"basename": name, "bytes": bytes}}
}

func shardIndex(t *testing.T, entries []map[string]any) []byte {
	t.Helper()
	raw, err := json.Marshal(map[string]any{"version": 2, "shards": entries})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// bucket starts a server of S3.
func bucket(t *testing.T) *objecttest.S3Double {
	t.Helper()
	s3 := objecttest.NewS3(t)
	t.Setenv("AWS_ENDPOINT_URL", s3.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "us-east-1")
	return s3
}

// archive returns a web archive with a gzip member per record.
func archive(t *testing.T, texts []string) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, text := range texts {
		z := gzip.NewWriter(&b)
		_, err := fmt.Fprintf(z, "WARC/1.0\r\nWARC-Type: conversion\r\nContent-Type: text/plain\r\n"+
			"Content-Length: %d\r\n\r\n%s\r\n\r\n", len(text), text)
		if err == nil {
			err = z.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// A puller of shards with their index and of web archives that is killed again and again stores each document once, in
// order, and does not request an object again from its beginning.
func TestPuller_ContinuesInShardsAndArchives(t *testing.T) {
	s3 := bucket(t)
	var want []string
	var index []map[string]any
	sizes, names := map[string]int{}, []string{"set/index.json"}
	for i := range 4 {
		var texts []string
		for k := range 1500 {
			texts = append(texts, fmt.Sprintf("object %d document %d %s", i, k, strings.Repeat(fmt.Sprint(k*k), 150)))
		}
		name, data := fmt.Sprintf("set/shard.%05d.mds", i), objecttest.Shard(texts)
		if i < 2 {
			index = append(index, indexEntry(name[len("set/"):], len(data), len(texts)))
		} else {
			name, data = fmt.Sprintf("web/%d.warc.gz", i), archive(t, texts)
		}
		sizes[name], names = len(data), append(names, name)
		s3.Web.Put("/bucket/"+name, data)
		want = append(want, texts...)
	}
	s3.Web.Put("/bucket/set/index.json", shardIndex(t, index))
	s := natstest.Start(t, func(c *stream.Config) { c.MaxBytes = 1 << 20 })
	docs := s.Store().Source("web", 1)
	o := pulling.Options{BatchBytes: 64 << 10, From: []string{"s3://bucket/set/", "s3://bucket/web/*"}}
	p := start(t, docs, o)
	until(t, "a full stream", func() bool { return p.Status().Waits != "" })
	r := reads(t, docs)
	pulls, err := pullrecord.Open(t.Context(), docs, lease.NewLeaderInfo("test", 1))
	if err != nil {
		t.Fatal(err)
	}
	var checked []string // objects
	for at := 350; at < len(want); at += 650 {
		until(t, "documents", func() bool { return len(r.got()) >= at })
		p.stop()
		record, err := pulls.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s3.Web.ResetRequests()
		p = start(t, docs, o)
		until(t, "more documents", func() bool { return len(r.got()) >= min(at+100, len(want)) })
		if record.Position == (pullrecord.ObjectPosition{}) || record.Complete {
			continue
		}

		name := names[record.Object]
		checked = append(checked, name)
		for _, request := range s3.Web.Requests() {
			if request.URL.Path == "/bucket/"+name && request.Header.Get("Range") == fmt.Sprintf("bytes=0-%d", sizes[name]-1) {
				t.Errorf("%s is requested from its beginning, its record is %+v", name, record.Position)
			}
		}
	}
	t.Logf("restarts within %v", checked)
	until(t, "the end", func() bool { return p.Status().Complete && len(r.got()) >= len(want) })
	if got := r.got(); !slices.Equal(got, want) {
		t.Fatalf("%d documents, want %d", len(got), len(want))
	}
	if left := p.Status().LeftOut; left > 0 {
		t.Errorf("%d entries are left out", left)
	}
}

// A data set without one of its shards is not read, and read once the shard exists.
func TestPuller_WaitsForMissingShard(t *testing.T) {
	s3 := bucket(t)
	first, second := objecttest.Shard([]string{"one"}), objecttest.Shard([]string{"two", "three"})
	s3.Web.Put("/bucket/a.mds", first)
	s3.Web.Put("/bucket/index.json", shardIndex(t, []map[string]any{indexEntry("a.mds", len(first), 1),
		indexEntry("b.mds", len(second), 2)}))
	docs := natstest.Start(t).Store().Source("web", 1)
	p := start(t, docs, pulling.Options{From: []string{"s3://bucket/"}})
	until(t, "the error", func() bool { return strings.Contains(p.Status().Trouble, "names the shard b.mds") })
	if now := p.Status(); now.Documents > 0 || now.Objects > 0 {
		t.Errorf("%+v", now)
	}
	s3.Web.Put("/bucket/b.mds", second)
	until(t, "the end", func() bool { return p.Status().Complete })
	if now := p.Status(); now.Documents != 3 || now.LeftOut != 0 || now.Trouble != "" {
		t.Errorf("%+v", now)
	}
}
