package objects_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"loaderd/internal/objects"
	"loaderd/internal/objecttest"
	"loaderd/internal/testscale"
)

// server is a real server of a protocol: how to connect to it, and how to store data in it.
type server struct {
	scheme  string
	address string
	reach   func(t *testing.T, address string)
	put     func(t *testing.T, name string, data []byte)
	deny    func(t *testing.T) // denies access from now on
}

const bucket = "corpus"

func s3Server(t *testing.T) server {
	address := objecttest.S3(t)
	c := s3.New(s3.Options{BaseEndpoint: &address, UsePathStyle: true, Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider(objecttest.S3Access, objecttest.S3Secret, "")})
	if _, err := c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucket)}); err != nil {
		t.Fatal(err)
	}
	return server{"s3", address, func(t *testing.T, address string) {
		t.Setenv("AWS_ENDPOINT_URL", address)
		t.Setenv("AWS_ACCESS_KEY_ID", objecttest.S3Access)
		t.Setenv("AWS_SECRET_ACCESS_KEY", objecttest.S3Secret)
		t.Setenv("AWS_REGION", "us-east-1")
	}, func(t *testing.T, name string, data []byte) {
		if _, err := c.PutObject(context.Background(), &s3.PutObjectInput{Bucket: aws.String(bucket), Key: &name,
			Body: bytes.NewReader(data)}); err != nil {
			t.Fatal(err)
		}
	}, func(t *testing.T) { t.Setenv("AWS_SECRET_ACCESS_KEY", "wrong-secret") }}
}

func gcsServer(t *testing.T) server {
	address := objecttest.GCS(t)
	post := func(path, kind string, body []byte) {
		answer, err := http.Post(address+path, kind, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode/100 != 2 {
			t.Fatalf("%s: %s", path, answer.Status)
		}
	}
	post("/storage/v1/b?project=test", "application/json", []byte(`{"name": "`+bucket+`"}`))
	return server{"gs", address, func(t *testing.T, address string) {
		t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(address, "http://"))
	},
		func(t *testing.T, name string, data []byte) {
			post("/upload/storage/v1/b/"+bucket+"/o?uploadType=media&name="+url.QueryEscape(name), "application/octet-stream",
				data)
		}, nil}
}

func azureServer(t *testing.T) server {
	address := objecttest.Azure(t)
	reach := func(t *testing.T, address string) {
		t.Setenv("AZURE_STORAGE_CONNECTION_STRING",
			fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;BlobEndpoint=%s;",
				objecttest.AzureAccount, objecttest.AzureKey, address))
	}
	key, err := container.NewSharedKeyCredential(objecttest.AzureAccount, objecttest.AzureKey)
	if err != nil {
		t.Fatal(err)
	}
	c, err := container.NewClientWithSharedKeyCredential(address+"/"+bucket, key, nil)
	if err == nil {
		_, err = c.Create(t.Context(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return server{"az", address, reach, func(t *testing.T, name string, data []byte) {
		if _, err := c.NewBlockBlobClient(name).UploadBuffer(context.Background(), data, nil); err != nil {
			t.Fatal(err)
		}
	}, func(t *testing.T) {
		t.Setenv("AZURE_STORAGE_CONNECTION_STRING",
			strings.Replace(fmt.Sprintf("AccountName=%s;AccountKey=%s;BlobEndpoint=%s", objecttest.AzureAccount,
				objecttest.AzureKey, address), "Eby8", "Ebz8", 1))
	}}
}

// Real servers of three protocols are tested: signatures, paged listings, ranges, changed objects and denied access.
func TestServers_EveryProtocol(t *testing.T) {
	if !testscale.All() {
		t.Skip("the servers are built and installed: LOADERD_TEST=all")
	}
	for name, start := range map[string]func(*testing.T) server{"s3": s3Server, "gs": gcsServer, "az": azureServer} {
		t.Run(name, func(t *testing.T) {
			x := start(t)
			x.reach(t, x.address)
			data := random(3 << 20)
			names := []string{"a b+c/ü=1.jsonl", "en/00.jsonl", "en/01.jsonl", "en/sub/02.jsonl", "fr/00.jsonl"}
			for i, name := range names {
				x.put(t, name, data[i:])
			}
			for i := range 1100 { // more than one page
				x.put(t, fmt.Sprintf("many/%04d", i), []byte{byte(i)})
			}
			t.Run("list and read", func(t *testing.T) { listAndRead(t, x, data) })
			t.Run("faults", func(t *testing.T) { readThroughProxy(t, x, data) })
			t.Run("changed", func(t *testing.T) { readChanged(t, x) })
			t.Run("refused", func(t *testing.T) { refused(t, x) })
		})
	}
}

// Keys of a profile produce signatures that a real server accepts.
func TestServers_AcceptProfileCredentials(t *testing.T) {
	if !testscale.All() {
		t.Skip("the servers are built and installed: LOADERD_TEST=all")
	}
	x := s3Server(t)
	x.put(t, "a.jsonl", []byte("data"))
	const profile = "[profile train]\nregion = us-east-1\nendpoint_url = %s\naws_access_key_id = " +
		"%s\naws_secret_access_key = %s\n"
	atHome(t, fmt.Sprintf(profile, x.address, objecttest.S3Access, objecttest.S3Secret), "")
	t.Setenv("AWS_PROFILE", "train")
	s := objects.New(objects.Options{RetryTimeout: patience})
	if data, err := readAll(t.Context(), s, list(t, s, "s3://"+bucket+"/**")[0], 0); err != nil || string(data) != "data" {
		t.Errorf("%q, %v", data, err)
	}
}

func listAndRead(t *testing.T, x server, data []byte) {
	s := objects.New(objects.Options{RetryTimeout: patience})
	for pattern, want := range map[string]string{
		"en/*.jsonl": "en/00.jsonl en/01.jsonl", "**/0[02].jsonl": "en/00.jsonl en/sub/02.jsonl fr/00.jsonl",
		"a*/*": "a b+c/ü=1.jsonl", "en": "en/00.jsonl en/01.jsonl en/sub/02.jsonl",
	} {
		var got []string
		for _, o := range list(t, s, x.scheme+"://"+bucket+"/"+pattern) {
			got = append(got, strings.TrimPrefix(o.URL, x.scheme+"://"+bucket+"/"))
			if o.Version == "" {
				t.Errorf("%s has no version", o.URL)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", pattern, got, want)
		}
	}
	if n := len(list(t, s, x.scheme+"://"+bucket+"/many/")); n != 1100 {
		t.Errorf("%d objects, want 1100", n)
	}
	odd := list(t, s, x.scheme+"://"+bucket+"/a*/*")[0]
	for _, from := range []int64{0, 1, 2_000_000, odd.Size - 1, odd.Size} {
		got, err := readAll(t.Context(), s, odd, from)
		if err != nil || !bytes.Equal(got, data[from:]) {
			t.Errorf("from %d: %d bytes, %v", from, len(got), err)
		}
	}
	r := s.ReaderAt(t.Context(), odd)
	r.Want([][2]int64{{100, 200}, {1000, 2_000_000}})
	for _, from := range []int64{2_500_000, 100, 1000, 0} {
		part := make([]byte, 100)
		if _, err := r.ReadAt(part, from); err != nil || !bytes.Equal(part, data[from:from+100]) {
			t.Errorf("at %d: %v", from, err)
		}
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func readThroughProxy(t *testing.T, x server, data []byte) {
	var n atomic.Int64
	address := objecttest.Proxy(t, x.address, func(*http.Request) objecttest.Fault {
		switch n.Add(1) % 5 {
		case 0:
			return objecttest.Fault{Status: 503}
		case 1, 3:
			return objecttest.Fault{Cut: true, After: rand.Int64N(1 << 20)}
		}
		return objecttest.Fault{}
	})
	x.reach(t, address)
	s := objects.New(objects.Options{})
	for i, o := range list(t, s, x.scheme+"://"+bucket+"/en/*") {
		got, err := readAll(t.Context(), s, o, 0)
		if err != nil || !bytes.Equal(got, data[i+1:]) {
			t.Errorf("%s: %d bytes, %v", o.URL, len(got), err)
		}
	}
	x.reach(t, x.address)
}

func readChanged(t *testing.T, x server) {
	x.reach(t, x.address)
	s := objects.New(objects.Options{RetryTimeout: patience})
	o := list(t, s, x.scheme+"://"+bucket+"/fr/00.jsonl")[0]
	x.put(t, "fr/00.jsonl", bytes.Repeat([]byte("b"), int(o.Size)))
	data, err := readAll(t.Context(), s, o, 1000)
	if !objects.IsKind(err, objects.Changed) || len(data) > 0 {
		t.Errorf("%d bytes, %v; want that it has changed", len(data), err)
	}
}

func refused(t *testing.T, x server) {
	x.reach(t, x.address)
	s := objects.New(objects.Options{RetryTimeout: patience})
	_, err := s.List(t.Context(), x.scheme+"://no-such-bucket-here/**")
	if !objects.IsKind(err, objects.NotFound) || !strings.Contains(err.Error(), "no-such-bucket-here") {
		t.Errorf("of a bucket that is not there: %v", err)
	}
	if x.deny == nil {
		return
	}
	x.deny(t)
	_, err = objects.New(objects.Options{RetryTimeout: patience}).List(t.Context(), x.scheme+"://"+bucket+"/**")
	if !objects.IsKind(err, objects.Denied) || !strings.Contains(err.Error(), "credentials are read from") ||
		strings.Contains(err.Error(), "wrong-secret") {
		t.Errorf("with a wrong secret: %v", err)
	}
}
