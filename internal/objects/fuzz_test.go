package objects

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/aws/aws-sdk-go-v2/aws"
)

// answers is a server that sends the same response to every request.
type answers struct {
	status       int
	body         []byte
	link, ranges string
	left         int
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.left--; a.left < 0 { // an endless listing
		return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody, Header: http.Header{}, Request: r}, nil
	}
	return &http.Response{StatusCode: a.status, Body: io.NopCloser(bytes.NewReader(a.body)),
		ContentLength: int64(len(a.body)), Request: r,
		Header: http.Header{"Link": {a.link}, "Content-Range": {a.ranges}, "Content-Type": {"application/xml"}}}, nil
}

// FuzzStoreResponses checks that for any response of a store, lists and reads end with names and bytes, or an error.
func FuzzStoreResponses(f *testing.F) {
	f.Add(200, []byte(`[{"type":"file","oid":"a","size":3,"path":"x"}]`), `<https://hub/next>; rel="next"`, "bytes 0-2/3")
	f.Add(200, []byte(`{"sha":"0123456789abcdef0123456789abcdef01234567"}`), `<//elsewhere>; rel="next"`, "bytes */0")
	f.Add(200, []byte(`{"items":[{"name":"x","size":"3","generation":"7"}],"nextPageToken":"more"}`), "", "")
	f.Add(200,
		[]byte(
			`<EnumerationResults><Blobs><Blob><Name>x</Name><Properties><Content-Length>3</Content-Length><Etag>0x8</Etag></Properties></Blob></Blobs><NextMarker/></EnumerationResults>`), "", "")
	f.Add(200,
		[]byte(
			`<ListBucketResult><Name>b</Name><Contents><Key>x</Key><ETag>"e"</ETag><Size>3</Size></Contents></ListBucketResult>`), "", "")
	f.Add(206, []byte("abc"), "", "bytes 0-2/3")
	f.Add(503, []byte("<Error><Code>SlowDown</Code></Error>"), "", "")
	f.Fuzz(func(t *testing.T, status int, body []byte, link, ranges string) {
		answer := func() *http.Client {
			return &http.Client{Transport: &answers{status, body, link, ranges, 5}}
		}
		s := New(Options{RetryTimeout: time.Nanosecond})
		stores := []store{
			&hubDataset{client: answer(), endpoint: "https://hub", name: "o/n", revision: "main", rootURL: "hf://datasets/o/n"},
			&hubDataset{client: answer(), endpoint: "https://hub", name: "o/n",
				revision: "0123456789abcdef0123456789abcdef01234567",
				rootURL:  "hf://datasets/o/n"},
			&gsBucket{client: answer(), base: "https://gs", bucket: "b"}, azureAnswering(t, answer()),
			&s3Bucket{access: awsAnswering(answer()), bucket: "bucket"}, &webServer{answer(), s},
		}
		for _, st := range stores {
			_ = st.list(context.Background(), "", func(_ string, o Object) error {
				if o.Size < 0 {
					t.Errorf("%T lists an object of %d bytes", st, o.Size)
				}
				return nil
			})
			if r, err := st.get(context.Background(), "https://web/x", Object{URL: "https://web/x", Size: 3}, 0, 3); err == nil {
				_, _ = io.Copy(io.Discard, r)
				_ = r.Close()
			}
		}
		w := &webServer{answer(), s}
		if o, err := w.stat(context.Background(), Object{URL: "https://web/x"}); err == nil && o.Size < 0 {
			t.Errorf("an object of %d bytes", o.Size)
		}
	})
}

func azureAnswering(t *testing.T, client *http.Client) store {
	core := azcore.ClientOptions{Transport: client, Retry: policy.RetryOptions{MaxRetries: -1}}
	c, err := container.NewClientWithNoCredential("https://az/b", &container.ClientOptions{ClientOptions: core})
	if err != nil {
		t.Fatal(err)
	}
	return &azureContainer{c, "b"}
}

// awsAnswering returns an access with fixed credentials, because the lookup would send requests over the network.
func awsAnswering(client *http.Client) *awsAccess {
	return &awsAccess{retryAt: time.Now().Add(time.Hour), config: &aws.Config{Region: defaultRegion,
		Credentials: aws.AnonymousCredentials{}, HTTPClient: client, Retryer: func() aws.Retryer { return aws.NopRetryer{} }}}
}
