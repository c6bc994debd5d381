// libweir_arrow.so: reads Parquet and Arrow files, and writes Parquet, with Arrow's own library
// (table_plugin.h).
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <arrow/api.h>
#include <arrow/c/bridge.h>
#include <arrow/csv/api.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/util/config.h>
#include <arrow/util/uri.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
#include <parquet/file_reader.h>

#include "arrow/range_file.h"
#include "arrow/row_groups.h"

namespace
{

using Batch = std::shared_ptr<arrow::RecordBatch>;
using Schema = std::shared_ptr<arrow::Schema>;

bool Fail(char *why, const arrow::Status &status)
{
	std::snprintf(why, TABLE_PLUGIN_WHY_BYTES, "%s", status.message().c_str());
	return false;
}

/// The places of columns in a schema, by name.
arrow::Result<std::vector<int>> PlacesOf(const arrow::Schema &schema, const std::vector<std::string> &names)
{
	std::vector<int> places;
	for (const std::string &name : names) {
		const int place = schema.GetFieldIndex(name); // -1: none, or several
		if (place < 0)
			return arrow::Status::Invalid("it has no column '", name, "', or several");
		places.push_back(place);
	}
	return places;
}

/// The batches of another reader from a row on, up to a number of rows, with columns in another order.
class Slice : public arrow::RecordBatchReader
{
  public:
	Slice(std::shared_ptr<arrow::RecordBatchReader> from, std::vector<int> places, Schema schema, int64_t skip, int64_t rows)
	    : from_(std::move(from)), places_(std::move(places)), schema_(std::move(schema)), skip_(skip), left_(rows)
	{
	}
	Schema schema() const override { return schema_; }
	arrow::Status ReadNext(Batch *out) override
	{
		*out = nullptr;
		while (left_ > 0) {
			Batch batch;
			ARROW_RETURN_NOT_OK(from_->ReadNext(&batch));
			if (!batch)
				return arrow::Status::Invalid("it ends before its last row");
			const int64_t skipped = std::min(skip_, batch->num_rows());
			const int64_t taken = std::min(left_, batch->num_rows() - skipped);
			skip_ -= skipped;
			if (taken == 0)
				continue;
			left_ -= taken;
			ARROW_ASSIGN_OR_RAISE(batch, batch->SelectColumns(places_));
			*out = batch->Slice(skipped, taken);
			return arrow::Status::OK();
		}
		return arrow::Status::OK();
	}

  private:
	std::shared_ptr<arrow::RecordBatchReader> from_;
	std::vector<int> places_;
	Schema schema_;
	int64_t skip_, left_;
};

using File = std::shared_ptr<arrow::io::RandomAccessFile>;

class Table
{
  public:
	virtual ~Table() = default;
	virtual Schema schema() const = 0;
	virtual int64_t rows() const = 0;
	virtual arrow::Result<std::shared_ptr<arrow::RecordBatchReader>> Read(const std::vector<std::string> &columns, int64_t begin,
	                                                                      int64_t end) = 0;
};

class ParquetTable : public Table
{
  public:
	static arrow::Result<std::unique_ptr<Table>> Open(File file)
	{
		auto table = std::make_unique<ParquetTable>();
		parquet::ArrowReaderProperties properties;
		properties.set_batch_size(kBatchRows);
		properties.set_use_threads(false); // Weir's own threads read several files
		properties.set_pre_buffer(false);  // RowGroups does
		parquet::arrow::FileReaderBuilder builder;
		ARROW_RETURN_NOT_OK(builder.Open(std::move(file)));
		table->coded_ = LeavesWithDictionaries(*builder.raw_reader()->metadata());
		for (const int leaf : table->coded_)
			properties.set_read_dictionary(leaf, true);
		std::unique_ptr<parquet::arrow::FileReader> reader;
		ARROW_RETURN_NOT_OK(builder.properties(properties)->Build(&reader));
		table->reader_ = std::move(reader);
		ARROW_RETURN_NOT_OK(table->reader_->GetSchema(&table->schema_));
		return table;
	}
	Schema schema() const override { return schema_; }
	int64_t rows() const override { return reader_->parquet_reader()->metadata()->num_rows(); }
	arrow::Result<std::shared_ptr<arrow::RecordBatchReader>> Read(const std::vector<std::string> &columns, int64_t begin,
	                                                              int64_t end) override
	{
		ARROW_ASSIGN_OR_RAISE(std::vector<int> fields, PlacesOf(*schema_, columns));
		const auto metadata = reader_->parquet_reader()->metadata();
		std::vector<int> groups;
		int64_t first = 0, skip = 0;
		for (int g = 0; g < metadata->num_row_groups(); g++) {
			const int64_t rows = metadata->RowGroup(g)->num_rows();
			if (first < end && first + rows > begin) {
				if (groups.empty())
					skip = begin - first;
				groups.push_back(g);
			}
			first += rows;
		}
		ARROW_ASSIGN_OR_RAISE(auto batches, RowGroups::Open(reader_, std::move(groups), LeavesOf(fields), coded_));
		ARROW_ASSIGN_OR_RAISE(std::vector<int> places, PlacesOf(*batches->schema(), columns));
		return std::make_shared<Slice>(batches, places, SchemaOf(*batches->schema(), places), skip, end - begin);
	}
	static Schema SchemaOf(const arrow::Schema &schema, const std::vector<int> &places)
	{
		arrow::FieldVector fields;
		for (const int place : places)
			fields.push_back(schema.field(place));
		return arrow::schema(fields);
	}

  private:
	/// The leaf columns of fields: a list has one below it, a struct several.
	std::vector<int> LeavesOf(const std::vector<int> &fields) const
	{
		const auto &leaves = *reader_->parquet_reader()->metadata()->schema();
		std::vector<int> out;
		for (int leaf = 0; leaf < leaves.num_columns(); leaf++) {
			const auto *root = leaves.GetColumnRoot(leaf);
			const int field = leaves.group_node()->FieldIndex(*root);
			if (std::find(fields.begin(), fields.end(), field) != fields.end())
				out.push_back(leaf);
		}
		return out;
	}
	std::shared_ptr<parquet::arrow::FileReader> reader_;
	Schema schema_;
	std::vector<int> coded_; // LeavesWithDictionaries
};

/// Batches [first, ...) of an Arrow file.
class FileBatches : public arrow::RecordBatchReader
{
  public:
	FileBatches(std::shared_ptr<arrow::ipc::RecordBatchFileReader> file, int first) : file_(std::move(file)), next_(first) {}
	Schema schema() const override { return file_->schema(); }
	arrow::Status ReadNext(Batch *out) override
	{
		*out = nullptr;
		if (next_ < file_->num_record_batches()) {
			ARROW_ASSIGN_OR_RAISE(*out, file_->ReadRecordBatch(next_++));
			ARROW_RETURN_NOT_OK((*out)->Validate());
		}
		return arrow::Status::OK();
	}

  private:
	std::shared_ptr<arrow::ipc::RecordBatchFileReader> file_;
	int next_;
};

class ArrowTable : public Table
{
  public:
	static arrow::Result<std::unique_ptr<Table>> Open(const File &file)
	{
		auto table = std::make_unique<ArrowTable>();
		auto options = arrow::ipc::IpcReadOptions::Defaults();
		options.use_threads = false;
		ARROW_ASSIGN_OR_RAISE(table->file_, arrow::ipc::RecordBatchFileReader::Open(file, options));
		options.included_fields = {0}; // the first column tells how many rows a batch has
		ARROW_ASSIGN_OR_RAISE(auto lengths, arrow::ipc::RecordBatchFileReader::Open(file, options));
		for (int i = 0; i < lengths->num_record_batches(); i++) {
			ARROW_ASSIGN_OR_RAISE(auto batch, lengths->ReadRecordBatch(i));
			table->ends_.push_back(table->rows() + batch->num_rows());
		}
		return table;
	}
	Schema schema() const override { return file_->schema(); }
	int64_t rows() const override { return ends_.empty() ? 0 : ends_.back(); }
	arrow::Result<std::shared_ptr<arrow::RecordBatchReader>> Read(const std::vector<std::string> &columns, int64_t begin,
	                                                              int64_t end) override
	{
		ARROW_ASSIGN_OR_RAISE(std::vector<int> places, PlacesOf(*schema(), columns));
		const auto first = std::upper_bound(ends_.begin(), ends_.end(), begin) - ends_.begin();
		const int64_t before = first == 0 ? 0 : ends_[static_cast<size_t>(first) - 1];
		return std::make_shared<Slice>(std::make_shared<FileBatches>(file_, static_cast<int>(first)), places,
		                               ParquetTable::SchemaOf(*schema(), places), begin - before, end - begin);
	}

  private:
	std::shared_ptr<arrow::ipc::RecordBatchFileReader> file_;
	std::vector<int64_t> ends_; // rows up to the end of each batch
};

/// The columns that a path names, as Hive lays out folders: NAME=VALUE is a column of all rows below.
std::vector<std::pair<std::string, std::shared_ptr<arrow::Scalar>>> ColumnsOfFolders(const std::string &path)
{
	std::vector<std::pair<std::string, std::shared_ptr<arrow::Scalar>>> out;
	size_t begin = 0;
	for (size_t end; (end = path.find('/', begin)) != std::string::npos; begin = end + 1) {
		const std::string folder = path.substr(begin, end - begin);
		const size_t equals = folder.find('=');
		if (equals == 0 || equals == std::string::npos)
			continue;
		const std::string value = arrow::util::UriUnescape(folder.substr(equals + 1));
		out.emplace_back(arrow::util::UriUnescape(folder.substr(0, equals)),
		                 value == "__HIVE_DEFAULT_PARTITION__" ? arrow::MakeNullScalar(arrow::utf8()) : arrow::MakeScalar(value));
	}
	return out;
}

/// A file's batches with columns of its folders among them.
class WithFolders : public arrow::RecordBatchReader
{
  public:
	/// values: of each column, or null where it is the next one of `from`.
	WithFolders(std::shared_ptr<arrow::RecordBatchReader> from, arrow::FieldVector fields, arrow::ScalarVector values)
	    : from_(std::move(from)), schema_(arrow::schema(std::move(fields))), values_(std::move(values))
	{
	}
	Schema schema() const override { return schema_; }
	arrow::Status ReadNext(Batch *out) override
	{
		Batch batch;
		ARROW_RETURN_NOT_OK(from_->ReadNext(&batch));
		*out = nullptr;
		if (!batch)
			return arrow::Status::OK();
		arrow::ArrayVector columns;
		int next = 0;
		for (const auto &value : values_) {
			if (value) {
				ARROW_ASSIGN_OR_RAISE(auto array, arrow::MakeArrayFromScalar(*value, batch->num_rows()));
				columns.push_back(array);
			} else {
				columns.push_back(batch->column(next++));
			}
		}
		*out = arrow::RecordBatch::Make(schema_, batch->num_rows(), columns);
		return arrow::Status::OK();
	}

  private:
	std::shared_ptr<arrow::RecordBatchReader> from_;
	Schema schema_;
	arrow::ScalarVector values_;
};

/// A file in folders that name columns. Columns of the file hide those of folders.
class TableInFolders : public Table
{
  public:
	/// source: of the file, or null.
	TableInFolders(std::unique_ptr<Table> file, std::shared_ptr<RangeFile> source, const std::string &path)
	    : file_(std::move(file)), source_(std::move(source))
	{
		arrow::FieldVector fields = file_->schema()->fields();
		for (auto &[name, value] : ColumnsOfFolders(path))
			if (file_->schema()->GetFieldIndex(name) < 0) {
				fields.push_back(arrow::field(name, arrow::utf8()));
				values_[name] = std::move(value);
			}
		schema_ = arrow::schema(fields);
	}
	~TableInFolders() override
	{
		if (source_)
			source_->Detach();
	}
	Schema schema() const override { return schema_; }
	int own() const { return file_->schema()->num_fields(); }
	int64_t rows() const override { return file_->rows(); }
	arrow::Result<std::shared_ptr<arrow::RecordBatchReader>> Read(const std::vector<std::string> &columns, int64_t begin,
	                                                              int64_t end) override
	{
		std::vector<std::string> inside;
		arrow::ScalarVector values;
		for (const std::string &name : columns) {
			const auto found = values_.find(name);
			values.push_back(found == values_.end() ? nullptr : found->second);
			if (!values.back())
				inside.push_back(name);
		}
		ARROW_ASSIGN_OR_RAISE(auto reader, file_->Read(inside, begin, end));
		if (inside.size() == columns.size())
			return reader;
		arrow::FieldVector fields;
		int next = 0;
		for (size_t i = 0; i < columns.size(); i++)
			fields.push_back(values[i] ? arrow::field(columns[i], arrow::utf8()) : reader->schema()->field(next++));
		return std::make_shared<WithFolders>(reader, fields, values);
	}

  private:
	std::unique_ptr<Table> file_;
	std::shared_ptr<RangeFile> source_;
	Schema schema_;
	std::map<std::string, std::shared_ptr<arrow::Scalar>> values_; // of folders
};

/// Opens CSV whose columns have these types; without types their names matter alone.
arrow::Result<std::shared_ptr<arrow::csv::StreamingReader>> OpenCsv(const std::string &path, const arrow::FieldVector &fields)
{
	auto parse = arrow::csv::ParseOptions::Defaults();
	parse.newlines_in_values = true;
	parse.ignore_empty_lines = false;
	auto convert = arrow::csv::ConvertOptions::Defaults();
	convert.null_values = {""};
	for (const auto &field : fields)
		convert.column_types[field->name()] = field->type();
	ARROW_ASSIGN_OR_RAISE(auto file, arrow::io::ReadableFile::Open(path));
	return arrow::csv::StreamingReader::Make(arrow::io::default_io_context(), std::move(file),
	                                         arrow::csv::ReadOptions::Defaults(), parse, convert);
}

arrow::Status WriteParquet(const std::string &csv, const std::string &out, uint32_t texts, table_number numbers)
{
	const auto number = numbers == TABLE_FLOAT32 ? arrow::float32() : arrow::float64();
	ARROW_ASSIGN_OR_RAISE(const auto untyped, OpenCsv(csv, {}));
	arrow::FieldVector fields;
	for (const auto &field : untyped->schema()->fields())
		fields.push_back(arrow::field(field->name(), fields.size() < texts ? arrow::utf8() : number));
	ARROW_ASSIGN_OR_RAISE(const auto reader, OpenCsv(csv, fields));
	ARROW_ASSIGN_OR_RAISE(auto file, arrow::io::FileOutputStream::Open(out));
	const auto properties = parquet::WriterProperties::Builder().compression(arrow::Compression::ZSTD)->build();
	ARROW_ASSIGN_OR_RAISE(const auto writer,
	                      parquet::arrow::FileWriter::Open(*reader->schema(), arrow::default_memory_pool(), file, properties));
	for (Batch batch;;) {
		ARROW_RETURN_NOT_OK(reader->ReadNext(&batch));
		if (!batch)
			break;
		ARROW_RETURN_NOT_OK(writer->WriteRecordBatch(*batch));
	}
	ARROW_RETURN_NOT_OK(writer->Close());
	return file->Close();
}

TableInFolders *Of(table_handle *t)
{
	return reinterpret_cast<TableInFolders *>(t);
}

/// Runs a function that returns a Status. Arrow's libraries may also throw.
template <typename Function> bool Guard(char *why, Function function)
{
	try {
		const arrow::Status status = function();
		return status.ok() || Fail(why, status);
	} catch (const std::exception &e) {
		return Fail(why, arrow::Status::IOError(e.what()));
	}
}

arrow::Result<File> OpenFile(const char *path, table_kind kind)
{
	if (kind == TABLE_PARQUET)
		return arrow::io::ReadableFile::Open(path);
	return arrow::io::MemoryMappedFile::Open(path, arrow::io::FileMode::READ);
}

bool Open(table_handle **out, const char *path, table_kind kind, const table_source *source, char *why)
{
	return Guard(why, [&]() -> arrow::Status {
		const auto range_file = source ? std::make_shared<RangeFile>(*source) : nullptr;
		File file = range_file;
		if (!file) {
			ARROW_ASSIGN_OR_RAISE(file, OpenFile(path, kind));
		}
		ARROW_ASSIGN_OR_RAISE(auto table, kind == TABLE_PARQUET ? ParquetTable::Open(file) : ArrowTable::Open(file));
		*out = reinterpret_cast<table_handle *>(new TableInFolders(std::move(table), range_file, path));
		return arrow::Status::OK();
	});
}

int64_t Rows(const table_handle *t)
{
	return reinterpret_cast<const TableInFolders *>(t)->rows();
}

bool GetSchema(table_handle *t, ArrowSchema *out, uint32_t *own, char *why)
{
	*own = static_cast<uint32_t>(Of(t)->own());
	return Guard(why, [&] { return arrow::ExportSchema(*Of(t)->schema(), out); });
}

bool Read(table_handle *t, const char *const *columns, uint32_t count, int64_t begin, int64_t end, ArrowArrayStream *out,
          char *why)
{
	return Guard(why, [&]() -> arrow::Status {
		ARROW_ASSIGN_OR_RAISE(auto reader, Of(t)->Read(std::vector<std::string>(columns, columns + count), begin, end));
		return arrow::ExportRecordBatchReader(reader, out);
	});
}

void Close(table_handle *t)
{
	delete Of(t);
}

bool Write(const char *csv, const char *out, uint32_t texts, table_number numbers, char *why)
{
	return Guard(why, [&] { return WriteParquet(csv, out, texts, numbers); });
}

const table_plugin plugin = {TABLE_PLUGIN_ABI, ARROW_VERSION_STRING, Open, Rows, GetSchema, Read, Close, Write};

} // namespace

extern "C" __attribute__((visibility("default"))) const table_plugin *weir_table_plugin()
{
	return &plugin;
}
