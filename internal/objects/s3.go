package objects

import (
	"cmp"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"
)

// s3 is a bucket of S3, or of a server that speaks its protocol.
type s3 struct {
	core   *minio.Core
	bucket string
}

func openS3(client *http.Client, who *credentials.Credentials, bucket string) (store, error) {
	p, err := readProfile(namedProfile())
	if err != nil {
		return nil, err
	}
	endpoint := cmp.Or(os.Getenv("AWS_ENDPOINT_URL_S3"), os.Getenv("AWS_ENDPOINT_URL"), p.settings["endpoint_url"], "https://s3.amazonaws.com")
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("AWS_ENDPOINT_URL is no address: want such as https://minio.example.org:9000")
	}
	core, err := minio.NewCore(u.Host, &minio.Options{
		Creds: who, Secure: u.Scheme == "https", Transport: onTheWay{client.Transport}, MaxRetries: 1, Region: awsRegion(p),
	})
	if err != nil {
		return nil, err
	}
	return &s3{core, bucket}, nil
}

// awsRegion is the region that the environment or the profile names; empty where neither does.
func awsRegion(p awsProfile) string {
	return cmp.Or(os.Getenv("AWS_REGION"), os.Getenv("AWS_DEFAULT_REGION"), p.settings["region"])
}

// checkS3 refuses names that S3 has not, which no server needs to be asked about.
func checkS3(a address) error {
	if err := errors.Join(s3utils.CheckValidBucketName(a.bucket), s3utils.CheckValidObjectNamePrefix(literal(a.name))); err != nil {
		return fmt.Errorf("this can be no name in S3: %w", err)
	}
	return nil
}

func (s *s3) list(ctx context.Context, prefix string, yield func(string, Object) error) error {
	ctx, cancel := context.WithCancel(ctx) // ends the listing where it is left
	defer cancel()
	for o := range s.core.ListObjectsIter(ctx, s.bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			return s.wrong(ctx, "", o.Err)
		}
		if err := yield(o.Key, Object{Size: o.Size, Version: o.ETag}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (s *s3) get(ctx context.Context, name string, o Object, from, to int64) (io.ReadCloser, error) {
	var options minio.GetObjectOptions
	if err := options.SetRange(from, to-1); err != nil {
		return nil, err
	}
	if o.Version != "" {
		if err := options.SetMatchETag(o.Version); err != nil {
			return nil, err
		}
	}
	body, info, header, err := s.core.GetObject(ctx, s.bucket, name, options)
	if err != nil {
		return nil, s.wrong(ctx, name, err)
	}
	if err := sameObject(o, header.Get("Content-Range"), info.ETag); err != nil {
		return nil, errors.Join(err, body.Close())
	}
	return body, nil
}

// wrong is an error of the library in our words.
func (s *s3) wrong(ctx context.Context, name string, err error) error {
	where := "s3://" + s.bucket
	if name != "" {
		where += "/" + name
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if own := (*Error)(nil); errors.As(err, &own) { // of who asks
		e := *own
		e.URL = where
		return &e
	}
	answer := minio.ToErrorResponse(err)
	if answer.StatusCode == 0 {
		return s.unanswered(where, err)
	}
	e := &Error{URL: where, Err: fmt.Errorf("%s answers %s", s.core.EndpointURL().Host, answer.Code)}
	kindOf(e, answer.StatusCode, deniedS3)
	switch answer.Code {
	case "NoSuchBucket":
		e.Kind, e.Err = Missing, errors.New("there is no such bucket")
	case "NoSuchKey":
		e.Kind, e.Err = Missing, errors.New("there is no such object any more")
	case "SlowDown", "RequestTimeout", "InternalError", "ServiceUnavailable":
		e.Kind = Down
	case "PreconditionFailed", "InvalidRange":
		e.Err = errors.New("the object has changed since it was listed")
	case "ExpiredToken", "RequestTimeTooSkewed", "AuthorizationHeaderMalformed":
		e.Kind, e.hint = Denied, deniedS3
	}
	return e
}

// unanswered is an error of the library that is no server's answer: of the way to it, which may pass, or of what is asked, which does not.
func (s *s3) unanswered(where string, err error) *Error {
	e := &Error{Kind: Unusable, URL: where, Err: err}
	var at *url.Error
	var broken *wayError
	var text *xml.SyntaxError
	switch {
	case errors.As(err, &at):
		e.Kind, err = Down, at.Err
	case errors.As(err, &broken), err == io.EOF, errors.As(err, &text) && text.Msg == "unexpected EOF": // the last two of answers without a length
		e.Kind = Down
	}
	if e.Kind == Down {
		e.Err = fmt.Errorf("%s does not answer: %w", s.core.EndpointURL().Host, err)
	}
	return e
}
