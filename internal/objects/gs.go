package objects

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
)

const deniedGS = "credentials are read from GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default " +
	"login`, or the machine's service account; they need the role Storage Object Viewer on the bucket"

// gsBucket is a bucket of Google Cloud Storage, accessed by its JSON API.
type gsBucket struct {
	client       *http.Client
	base, bucket string
	tokens       oauth2.TokenSource // nil: requests are anonymous
}

func openGS(ctx context.Context, client *http.Client, bucket string) (store, error) {
	if host := os.Getenv("STORAGE_EMULATOR_HOST"); host != "" {
		if !strings.Contains(host, "://") {
			host = "http://" + host
		}
		return &gsBucket{client: client, base: strings.TrimSuffix(host, "/"), bucket: bucket}, nil
	}
	s := &gsBucket{client: client, base: "https://storage.googleapis.com", bucket: bucket}
	ctx = context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, client)
	found, err := google.FindDefaultCredentials(ctx, "https://www.googleapis.com/auth/devstorage.read_only")
	switch {
	case err == nil:
		s.tokens = found.TokenSource
	case os.Getenv("GOOGLE_APPLICATION_CREDENTIALS") != "":
		return nil, errors.New("the file of GOOGLE_APPLICATION_CREDENTIALS can not be used: want a key of a service " +
			"account, or what gcloud writes")
	}
	return s, nil
}

func (s *gsBucket) objectURL(name string) string {
	if name == "" {
		return "gs://" + s.bucket
	}
	return "gs://" + s.bucket + "/" + name
}

// request returns a request for a path below the bucket.
func (s *gsBucket) request(ctx context.Context, path string, query url.Values) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/storage/v1/b/"+url.PathEscape(s.bucket)+path+"?"+
		query.Encode(), nil)
	if err != nil {
		return nil, &Error{Kind: Invalid, URL: s.objectURL(""), Err: errors.New("STORAGE_EMULATOR_HOST is no address")}
	}
	r.Header.Set("Accept-Encoding", "gzip") // otherwise compressed objects are decompressed by the server, without ranges
	if s.tokens == nil {
		return r, nil
	}
	token, err := s.tokens.Token()
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused):
		return nil, &Error{Kind: Denied, URL: s.objectURL(""), Err: fmt.Errorf("no token is given (%s)", refused.ErrorCode),
			hint: deniedGS}
	case err != nil:
		return nil, &Error{Kind: Unavailable, URL: s.objectURL(""), Err: errors.New("a token can not be had")}
	}
	token.SetAuthHeader(r)
	return r, nil
}

func (s *gsBucket) list(ctx context.Context, prefix string, yield func(string, Object) error) error {
	query := url.Values{"prefix": {prefix}, "fields": {"items(name,size,generation),nextPageToken"}}
	for {
		r, err := s.request(ctx, "/o", query)
		if err != nil {
			return err
		}
		answer, err := doRequest(s.client, r, s.objectURL(""), deniedGS)
		if err != nil {
			return err
		}
		var page struct {
			Items []struct {
				Name, Generation string
				Size             int64 `json:",string"`
			}
			NextPageToken string
		}
		err = readJSON(answer, s.objectURL(""), &page)
		answer.Body.Close() // read only
		if err != nil {
			return err
		}
		for _, x := range page.Items {
			if _, err := strconv.ParseUint(x.Generation, 10, 64); err != nil || x.Size < 0 {
				return &Error{Kind: Invalid, URL: s.objectURL(""), Err: fmt.Errorf("the listing has no size and generation of %q",
					x.Name)}
			}
			if err := yield(x.Name, Object{Size: x.Size, Version: x.Generation}); err != nil {
				return err
			}
		}
		if page.NextPageToken == "" {
			return nil
		}
		query.Set("pageToken", page.NextPageToken)
	}
}

func (s *gsBucket) get(ctx context.Context, name string, o Object, from, to int64) (body rangeBody, err error) {
	r, err := s.request(ctx, "/o/"+url.PathEscape(name), url.Values{"alt": {"media"}, "ifGenerationMatch": {o.Version}})
	if err != nil {
		return body, err
	}
	body, header, err := getRange(s.client, r, o, from, to, deniedGS)
	if err != nil {
		return body, err
	}
	if now := header.Get("X-Goog-Generation"); now != "" && now != o.Version {
		return body, errors.Join(changedError(o, "its generation is another one"), body.Close())
	}
	return body, nil
}
