#include "arrow/row_groups.h"

#include <algorithm>
#include <utility>

#include <arrow/api.h>
#include <arrow/io/caching.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/bit_util.h>
#include <parquet/column_reader.h>

namespace
{

/// Whether all pages of data of a chunk have indexes of its dictionary.
bool HasOnlyIndexes(const parquet::ColumnChunkMetaData &chunk)
{
	bool some = false;
	for (const auto &pages : chunk.encoding_stats()) {
		if (pages.page_type == parquet::PageType::DICTIONARY_PAGE)
			continue;
		if (pages.encoding != parquet::Encoding::RLE_DICTIONARY && pages.encoding != parquet::Encoding::PLAIN_DICTIONARY)
			return false;
		some = true;
	}
	return some;
}

/// Whether a field is of a type that IndexColumn makes: indexes of 32 bits into texts.
bool IsOfIndexes(const arrow::DataType &type)
{
	if (type.id() != arrow::Type::DICTIONARY)
		return false;
	const auto &dictionary = static_cast<const arrow::DictionaryType &>(type);
	const auto values = dictionary.value_type()->id();
	return dictionary.index_type()->id() == arrow::Type::INT32 &&
	       (values == arrow::Type::STRING || values == arrow::Type::BINARY);
}

} // namespace

std::vector<int> LeavesWithDictionaries(const parquet::FileMetaData &file)
{
	std::vector<int> out;
	for (int leaf = 0; leaf < file.num_columns(); leaf++) {
		const auto *column = file.schema()->Column(leaf);
		bool all = column->physical_type() == parquet::Type::BYTE_ARRAY && !column->logical_type()->is_decimal() &&
		           column->max_repetition_level() == 0 && column->path()->ToDotVector().size() == 1;
		for (int g = 0; g < file.num_row_groups() && all; g++)
			all = HasOnlyIndexes(*file.RowGroup(g)->ColumnChunk(leaf));
		if (all)
			out.push_back(leaf);
	}
	return out;
}

class IndexColumn
{
  public:
	IndexColumn(parquet::RowGroupReader &group, int leaf, std::shared_ptr<arrow::DataType> type)
	    : reader_(std::dynamic_pointer_cast<parquet::ByteArrayReader>(
	          group.ColumnWithExposeEncoding(leaf, parquet::ExposedEncoding::DICTIONARY))),
	      type_(std::move(type))
	{
	}

	arrow::Result<std::shared_ptr<arrow::Array>> Read(int64_t rows)
	{
		if (!reader_ || reader_->GetExposedEncoding() != parquet::ExposedEncoding::DICTIONARY)
			return arrow::Status::Invalid("a column has pages without the dictionary that its metadata tell of");
		ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> indexes, arrow::AllocateBuffer(rows * sizeof(int32_t)));
		auto *out = reinterpret_cast<int32_t *>(indexes->mutable_data());
		levels_.resize(static_cast<size_t>(rows));
		int64_t done = 0, values = 0;
		while (done < rows) {
			const parquet::ByteArray *texts = nullptr;
			int32_t count = 0;
			int64_t got = 0;
			const int64_t levels =
			    reader_->ReadBatchWithDictionary(rows - done, levels_.data() + done, nullptr, out + values, &got, &texts, &count);
			if (levels <= 0)
				return arrow::Status::Invalid("a column has fewer rows than its row group");
			if (!dictionary_) {
				ARROW_ASSIGN_OR_RAISE(dictionary_, DictionaryOf(texts, texts ? count : 0));
			}
			done += levels;
			values += got;
		}
		std::shared_ptr<arrow::Buffer> valid;
		if (values < rows) {
			ARROW_ASSIGN_OR_RAISE(valid, Spread(out, rows, values));
		}
		auto data = arrow::ArrayData::Make(type_, rows, {valid, indexes}, rows - values);
		data->dictionary = dictionary_->data();
		return arrow::MakeArray(data);
	}

  private:
	arrow::Result<std::shared_ptr<arrow::Array>> DictionaryOf(const parquet::ByteArray *texts, int32_t count) const
	{
		int64_t bytes = 0;
		for (int32_t i = 0; i < count; i++)
			bytes += texts[i].len;
		if (bytes > INT32_MAX)
			return arrow::Status::Invalid("a dictionary has more than 2 GiB of texts");
		ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> offsets, arrow::AllocateBuffer((count + 1) * sizeof(int32_t)));
		ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> text, arrow::AllocateBuffer(bytes));
		auto *ends = reinterpret_cast<int32_t *>(offsets->mutable_data());
		ends[0] = 0;
		for (int32_t i = 0; i < count; i++) {
			std::copy_n(texts[i].ptr, texts[i].len, text->mutable_data() + ends[i]);
			ends[i + 1] = ends[i] + static_cast<int32_t>(texts[i].len);
		}
		const auto &values = static_cast<const arrow::DictionaryType &>(*type_).value_type();
		return arrow::MakeArray(arrow::ArrayData::Make(values, count, {nullptr, offsets, text}, 0));
	}

	/// Moves the values to their rows, and returns which rows have one.
	arrow::Result<std::shared_ptr<arrow::Buffer>> Spread(int32_t *out, int64_t rows, int64_t values) const
	{
		ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> valid, arrow::AllocateEmptyBitmap(rows));
		for (int64_t i = rows; i-- > 0;) {
			const bool has = levels_[static_cast<size_t>(i)] > 0;
			out[i] = has ? out[--values] : 0;
			arrow::bit_util::SetBitTo(valid->mutable_data(), i, has);
		}
		return valid;
	}

	std::shared_ptr<parquet::ByteArrayReader> reader_;
	std::shared_ptr<arrow::DataType> type_;
	std::shared_ptr<arrow::Array> dictionary_; // null: nothing is read yet
	std::vector<int16_t> levels_;
};

RowGroups::RowGroups() = default;
RowGroups::~RowGroups() = default;

arrow::Result<std::shared_ptr<arrow::RecordBatchReader>> RowGroups::Open(std::shared_ptr<parquet::arrow::FileReader> file,
                                                                         std::vector<int> groups, std::vector<int> leaves,
                                                                         const std::vector<int> &coded)
{
	ARROW_ASSIGN_OR_RAISE(const auto none, file->GetRecordBatchReader({}, leaves));
	const auto &columns = *file->parquet_reader()->metadata()->schema();
	auto reader = std::make_shared<RowGroups>();
	reader->schema_ = none->schema();
	reader->leaf_of_.assign(static_cast<size_t>(reader->schema_->num_fields()), -1);
	for (const int leaf : leaves) {
		const int field = reader->schema_->GetFieldIndex(columns.GetColumnRoot(leaf)->name());
		if (field >= 0 && std::find(coded.begin(), coded.end(), leaf) != coded.end() &&
		    IsOfIndexes(*reader->schema_->field(field)->type()))
			reader->leaf_of_[static_cast<size_t>(field)] = leaf;
		else
			reader->others_.push_back(leaf);
	}
	reader->file_ = std::move(file);
	reader->groups_ = std::move(groups);
	reader->leaves_ = std::move(leaves);
	return reader;
}

arrow::Status RowGroups::OpenGroup(int group)
{
	parquet::ParquetFileReader *file = file_->parquet_reader();
	file->PreBuffer({group}, leaves_, arrow::io::default_io_context(), arrow::io::CacheOptions::Defaults());
	group_ = file->RowGroup(group);
	left_ = file->metadata()->RowGroup(group)->num_rows();
	columns_.clear();
	for (size_t i = 0; i < leaf_of_.size(); i++)
		columns_.push_back(
		    leaf_of_[i] < 0 ? nullptr
		                    : std::make_unique<IndexColumn>(*group_, leaf_of_[i], schema_->field(static_cast<int>(i))->type()));
	batches_.reset();
	if (!others_.empty()) {
		ARROW_ASSIGN_OR_RAISE(batches_, file_->GetRecordBatchReader({group}, others_));
	}
	return arrow::Status::OK();
}

arrow::Status RowGroups::Next(std::shared_ptr<arrow::RecordBatch> *out)
{
	*out = nullptr;
	while (left_ == 0) {
		if (next_ == groups_.size())
			return arrow::Status::OK();
		ARROW_RETURN_NOT_OK(OpenGroup(groups_[next_++]));
	}
	std::shared_ptr<arrow::RecordBatch> others;
	if (batches_) {
		ARROW_RETURN_NOT_OK(batches_->ReadNext(&others));
		if (!others || others->num_rows() > left_)
			return arrow::Status::Invalid("a row group has another number of rows than its metadata");
	}
	const int64_t rows = others ? others->num_rows() : std::min(left_, kBatchRows);
	arrow::ArrayVector arrays;
	int other = 0;
	for (const auto &column : columns_) {
		if (column) {
			ARROW_ASSIGN_OR_RAISE(auto array, column->Read(rows));
			arrays.push_back(std::move(array));
		} else {
			arrays.push_back(others->column(other++));
		}
	}
	left_ -= rows;
	*out = arrow::RecordBatch::Make(schema_, rows, std::move(arrays));
	return arrow::Status::OK();
}

arrow::Status RowGroups::ReadNext(std::shared_ptr<arrow::RecordBatch> *out)
{
	try { // Parquet's library throws
		return Next(out);
	} catch (const std::exception &e) {
		return arrow::Status::IOError(e.what());
	}
}
