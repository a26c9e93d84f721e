package objects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"

	"cloud.google.com/go/storage"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/iterator"
	"google.golang.org/api/option"
)

const deniedGCS = "credentials come from GOOGLE_APPLICATION_CREDENTIALS, `gcloud auth application-default login`, or the machine's service account; " +
	"they need the role Storage Object Viewer on the bucket"

// gcsBucket is a bucket of Google Cloud Storage.
type gcsBucket struct {
	handle *storage.BucketHandle
	bucket string
}

func openGCS(ctx context.Context, client *http.Client, bucket string) (store, error) {
	ctx = context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, client)
	if os.Getenv("STORAGE_EMULATOR_HOST") == "" { // the library sends requests there without credentials
		found, err := google.FindDefaultCredentials(ctx, storage.ScopeReadOnly)
		switch {
		case err == nil:
			client = &http.Client{Transport: &oauth2.Transport{Base: client.Transport, Source: found.TokenSource}}
		case os.Getenv("GOOGLE_APPLICATION_CREDENTIALS") != "":
			return nil, errors.New("the file of GOOGLE_APPLICATION_CREDENTIALS can not be used: want a key of a service account, or what gcloud writes")
		}
	}
	service, err := storage.NewClient(ctx, option.WithHTTPClient(client), storage.WithJSONReads())
	if err != nil {
		return nil, err
	}
	return &gcsBucket{service.Bucket(bucket).Retryer(storage.WithPolicy(storage.RetryNever)), bucket}, nil
}

func (b *gcsBucket) list(ctx context.Context, prefix string, yield func(string, Object) error) error {
	query := &storage.Query{Prefix: prefix}
	if err := query.SetAttrSelection([]string{"Name", "Size", "Generation"}); err != nil {
		return err
	}
	for objects := b.handle.Objects(ctx, query); ; {
		o, err := objects.Next()
		switch {
		case errors.Is(err, iterator.Done):
			return nil
		case err != nil:
			return b.wrong(ctx, "", err)
		case o.Generation == 0 || o.Size < 0:
			return &Error{Kind: Unusable, URL: "gs://" + b.bucket, Err: fmt.Errorf("the listing has no size and generation of %q", o.Name)}
		}
		if err := yield(o.Name, Object{Size: o.Size, Version: strconv.FormatInt(o.Generation, 10)}); err != nil {
			return err
		}
	}
}

func (b *gcsBucket) get(ctx context.Context, name string, o Object, from, to int64) (io.ReadCloser, error) {
	generation, err := strconv.ParseInt(o.Version, 10, 64)
	if err != nil {
		return nil, changed(o, "its version is not a generation")
	}
	// Without ReadCompressed what is stored compressed is decompressed, and has no ranges.
	object := b.handle.Object(name).If(storage.Conditions{GenerationMatch: generation}).ReadCompressed(true)
	body, err := object.NewRangeReader(ctx, from, to-from)
	if err != nil {
		return nil, b.wrong(ctx, name, err)
	}
	if body.Attrs.Size != o.Size {
		return nil, errors.Join(changed(o, fmt.Sprintf("it has %d bytes, it had %d", body.Attrs.Size, o.Size)), body.Close())
	}
	return body, nil
}

// wrong converts an error of the library.
func (b *gcsBucket) wrong(ctx context.Context, name string, err error) error {
	where := "gs://" + b.bucket
	if name != "" {
		where += "/" + name
	}
	var answer *googleapi.Error
	var refused *oauth2.RetrieveError
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &refused):
		return &Error{Kind: Denied, URL: where, Err: fmt.Errorf("no token is given (%s)", refused.ErrorCode), hint: deniedGCS}
	case errors.As(err, &answer):
		e := &Error{URL: where, Err: fmt.Errorf("the store answers %d %s", answer.Code, http.StatusText(answer.Code))}
		kindOf(e, answer.Code, deniedGCS)
		e.wait = retryAfter(answer.Header)
		return e
	case errors.Is(err, storage.ErrBucketNotExist), errors.Is(err, storage.ErrObjectNotExist):
		return &Error{Kind: Missing, URL: where, Err: errors.New("there is no such bucket or object")}
	}
	return unreachable(ctx, where, err)
}
